// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strconv"
)

// connectMethod asks an HTTP proxy for a tunnel. Whatever else it answers is its
// own word.
func (x *exchange) connectMethod(ctx context.Context) error {
	b := make([]byte, 0, 512)
	b = append(append(b, "CONNECT "...), x.to.hostPort...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), x.to.hostPort...)
	b = append(b, "\r\nUser-Agent: "+userAgent+"\r\n"...)
	b = append(x.appendCredentials(b), "\r\n"...)
	if _, err := x.conn.Write(b); err != nil && ctx.Err() != nil {
		return x.broken(ctx, err, err, false)
	}
	res, err := x.readHeader(ctx, http.MethodConnect)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // empty, or of no interest
	if res.StatusCode/100 == 2 {
		return nil
	}
	return x.refused(res)
}

// Numbers of RFC 1928 and RFC 1929.
const (
	socksVersion      = 5
	socksConnect      = 1
	socksNoAuth       = 0
	socksPassword     = 2
	socksIPv4         = 1
	socksName         = 3
	socksIPv6         = 4
	socksAuthVersion  = 1
	socksMaxText      = 255
	socksNotAllowed   = 2
	socksFirstTarget  = 3 // network unreachable, host unreachable,
	socksLastTarget   = 6 // connection refused, TTL expired
	socksNoneSuitable = 0xff
)

// socks asks a SOCKS5 proxy for a tunnel. Names are left to the proxy.
func (x *exchange) socks(ctx context.Context) error {
	if err := x.socksLogin(ctx); err != nil {
		return err
	}
	b := []byte{socksVersion, socksConnect, 0}
	switch address, err := netip.ParseAddr(x.to.host); {
	case err != nil:
		b = append(append(b, socksName, byte(len(x.to.host))), x.to.host...) // #nosec G115 -- at most 253, see isName
	case address.Unmap().Is4():
		b = append(append(b, socksIPv4), address.Unmap().AsSlice()...)
	default:
		b = append(append(b, socksIPv6), address.AsSlice()...)
	}
	port, err := strconv.ParseUint(x.to.port, 10, 16)
	if err != nil {
		return byTarget(ReasonTargetDenied, "no port") // can't be: check has seen it
	}
	reply, err := x.socksSay(ctx, append(b, byte(port>>8), byte(port)), 4)
	if err != nil {
		return err
	}
	if reply[0] != socksVersion {
		return byProxy(ReasonBadAnswer, "not a SOCKS5 reply")
	}
	if code := reply[1]; code != 0 {
		return socksRefusal(code)
	}
	rest := map[byte]int{socksIPv4: 4, socksIPv6: 16}[reply[3]]
	if reply[3] == socksName {
		length, err := x.socksSay(ctx, nil, 1)
		if err != nil {
			return err
		}
		rest = int(length[0])
	}
	if rest == 0 {
		return byProxy(ReasonBadAnswer, "a SOCKS5 reply without an address")
	}
	_, err = x.socksSay(ctx, nil, rest+2)
	return err
}

func socksRefusal(code byte) *failure {
	detail := "SOCKS5 reply " + strconv.Itoa(int(code))
	switch {
	case code == socksNotAllowed:
		return byProxy(ReasonRefused, detail)
	case code >= socksFirstTarget && code <= socksLastTarget:
		return byProxy(ReasonTargetUnreachable, detail)
	default:
		return byProxy(ReasonProxyError, detail)
	}
}

// socksLogin agrees on a way of authentication and goes it. As common clients do,
// it offers to go without even if there are credentials.
func (x *exchange) socksLogin(ctx context.Context) error {
	user, password := x.proxy.Username, x.proxy.Password
	offer := []byte{socksVersion, 1, socksNoAuth}
	refusal := ReasonAuthRequired
	if x.proxy.hasCredentials() {
		offer = []byte{socksVersion, 2, socksNoAuth, socksPassword}
		refusal = ReasonAuthFailed
	}
	if len(user) > socksMaxText || len(password) > socksMaxText {
		return byProxy(ReasonAuthFailed, "credentials are too long for SOCKS5")
	}
	choice, err := x.socksSay(ctx, offer, 2)
	if err != nil {
		return err
	}
	switch {
	case choice[0] != socksVersion:
		return byProxy(ReasonBadAnswer, "not a SOCKS5 proxy")
	case choice[1] == socksNoAuth:
		x.unasked = x.proxy.hasCredentials()
		return nil
	case choice[1] == socksNoneSuitable:
		return byProxy(refusal, "no way of authentication suits the proxy")
	case choice[1] != socksPassword || !x.proxy.hasCredentials():
		return byProxy(ReasonBadAnswer, "the proxy chose what wasn't offered")
	}
	b := append([]byte{socksAuthVersion, byte(len(user))}, user...) // #nosec G115 -- checked above
	b = append(append(b, byte(len(password))), password...)         // #nosec G115 -- checked above
	verdict, err := x.socksSay(ctx, b, 2)
	if err != nil {
		return err
	}
	if verdict[1] != 0 {
		return byProxy(ReasonAuthFailed, "the proxy refuses the credentials")
	}
	return nil
}

// socksSay writes b and reads exactly n bytes.
func (x *exchange) socksSay(ctx context.Context, b []byte, n int) ([]byte, error) {
	if len(b) > 0 {
		if _, err := x.conn.Write(b); err != nil && ctx.Err() != nil {
			return nil, x.broken(ctx, err, err, false)
		}
	}
	answer := make([]byte, n)
	got, err := io.ReadFull(x.in, answer)
	if err != nil {
		return nil, x.broken(ctx, err, x.from.last, got > 0)
	}
	return answer, nil
}
