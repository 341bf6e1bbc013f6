// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// userAgent tells whoever reads a log where the request comes from.
const userAgent = "proxy-operator-probe/1"

// exchange is one request on one connection, in steps. Every step's error is a
// *failure.
type exchange struct {
	clock    clock.PassiveClock
	proxy    *Proxy // nil: none
	target   Target
	sessions tls.ClientSessionCache
	own      *string // this machine's address elsewhere, if known

	to    destination
	stage stage
	// conn is what the next layer speaks on; in reads it, with a limit.
	conn net.Conn
	in   *bufio.Reader
	from limited
	// unasked: the proxy has credentials and didn't want them.
	unasked bool
	nonce   string
	out     Outcome
}

// run does it all. Nothing is left open when it returns.
func (x *exchange) run(ctx context.Context, p *Prober) error {
	ranges := orDefault(p.Deny)
	if x.target.Trusted {
		ranges = nil
	}
	var err error
	if x.to, err = parseTarget(x.target.URL, ranges); err != nil {
		return err
	}
	if err := x.dial(ctx, p); err != nil {
		return err
	}
	defer x.interruptedBy(ctx)()
	x.in = bufio.NewReader(&x.from)
	if err := x.connect(ctx); err != nil {
		return err
	}
	if err := x.ask(ctx); err != nil {
		return err
	}
	return x.judge(ctx)
}

// dial makes the TCP connection, with the proxy or else with the target.
func (x *exchange) dial(ctx context.Context, p *Prober) error {
	address, ranges, trusted := x.to.hostPort, p.Deny, x.target.Trusted
	if x.proxy != nil {
		address, ranges, trusted = net.JoinHostPort(x.proxy.Host, strconv.Itoa(x.proxy.Port)), p.DenyProxy, x.proxy.Trusted
	}
	ranges = orDefault(ranges)
	if trusted {
		ranges = nil
	}
	begin := x.clock.Now()
	conn, err := p.dialer(ranges).DialContext(ctx, "tcp", address)
	x.out.ConnectLatency = x.clock.Since(begin)
	if err != nil && x.proxy == nil && errors.Is(err, errDenied) {
		return byTarget(ReasonTargetDenied, "the name leads to an address that no probe may ask for")
	}
	if err != nil {
		return dialFailure(ctx, err)
	}
	x.over(conn)
	return nil
}

// over makes conn the layer that is spoken on.
func (x *exchange) over(conn net.Conn) {
	x.conn = conn
	x.from = limited{source: conn, left: maxHeader}
	if x.in != nil {
		x.in.Reset(&x.from)
	}
}

// interruptedBy ends all waits on the connection when ctx ends. What it returns
// closes the connection and waits for the goroutine that the end may have started.
func (x *exchange) interruptedBy(ctx context.Context) func() {
	conn, done := x.conn, make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-done
		}
		// TLS layers aren't closed: their farewell could block, and nobody waits for it.
		_ = conn.Close()
	}
}

// connect makes the way to the target: TLS with the proxy, the tunnel, TLS with
// the target, as far as they are needed.
func (x *exchange) connect(ctx context.Context) error {
	if p := x.proxy; p != nil && p.Protocol == HTTPS {
		c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.Host, RootCAs: p.RootCAs}
		c.InsecureSkipVerify = p.InsecureSkipVerify // #nosec G402 -- the user's explicit choice, for the proxy's own certificate alone
		if err := x.encrypt(ctx, c); err != nil {
			return err
		}
	}
	if err := x.tunnel(ctx); err != nil {
		return err
	}
	if !x.to.tls {
		return nil
	}
	err := x.encrypt(ctx, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: x.to.host, RootCAs: x.target.RootCAs, ClientSessionCache: x.sessions})
	if err == nil {
		x.stage = secured
	}
	return err
}

// tunnel asks the proxy for a tunnel if one is needed.
func (x *exchange) tunnel(ctx context.Context) error {
	var err error
	switch {
	case x.proxy == nil:
		return nil
	case x.proxy.Protocol == SOCKS5:
		err = x.socks(ctx)
	case x.to.tls:
		err = x.connectMethod(ctx)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	x.stage = inTunnel
	if x.in.Buffered() > 0 {
		return byProxy(ReasonTunnelBroken, "the tunnel talks before the target was asked")
	}
	return nil
}

// encrypt puts TLS on the connection. Its end by ctx is that of the connection
// below: HandshakeContext would need a goroutine.
func (x *exchange) encrypt(ctx context.Context, c *tls.Config) error {
	conn := tls.Client(x.conn, c)
	if err := conn.Handshake(); err != nil {
		return x.tlsFailure(ctx, err)
	}
	x.over(conn)
	return nil
}

// ask writes the request. A failing write is looked at when the answer is read: it
// may have come before all was written.
func (x *exchange) ask(ctx context.Context) error {
	b := make([]byte, 0, 512)
	b = append(b, "GET "...)
	absolute := x.proxy != nil && x.stage == atProxy
	if absolute {
		b = append(append(b, "http://"...), x.to.authority...)
	}
	path := x.to.path
	if x.target.Judge {
		path = x.judgePath(path)
	}
	b = append(append(b, path...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, x.to.authority...), "\r\nUser-Agent: "+userAgent+"\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n"...)
	if absolute {
		b = x.appendCredentials(b)
	}
	if x.target.Judge && x.cacheable() {
		b = append(append(append(b, nonceHeader+": "...), x.nonce...), "\r\n"...)
	}
	_, err := x.conn.Write(append(b, "\r\n"...))
	if err != nil && ctx.Err() != nil {
		return x.broken(ctx, err, err, false)
	}
	return nil
}

func (x *exchange) appendCredentials(b []byte) []byte {
	if !x.proxy.hasCredentials() {
		return b
	}
	b = append(b, "Proxy-Authorization: Basic "...)
	b = base64.StdEncoding.AppendEncode(b, []byte(x.proxy.Username+":"+x.proxy.Password))
	return append(b, "\r\n"...)
}

// judgePath adds to the path what the judge is told: a fresh nonce, unless the
// same URL is to be asked for again, and this machine's addresses to look for.
func (x *exchange) judgePath(path string) string {
	x.nonce = rand.Text()
	q := ""
	if !x.cacheable() {
		q = "&nonce=" + x.nonce
	}
	if host, _, err := net.SplitHostPort(x.conn.LocalAddr().String()); err == nil {
		q += "&self=" + url.QueryEscape(host)
	}
	if x.own != nil {
		q += "&self=" + url.QueryEscape(*x.own)
	}
	if q != "" && !strings.Contains(path, "?") {
		q = "?" + q[1:]
	}
	return path + q
}

// cacheable tells whether the target's URL allows an answer from a cache.
func (x *exchange) cacheable() bool {
	_, query, _ := strings.Cut(x.to.path, "?")
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "cache=1" {
			return true
		}
	}
	return false
}
