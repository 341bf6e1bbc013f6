// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

const (
	established = "HTTP/1.1 200 OK\r\n\r\n"
	authNeeded  = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
	socksOpen   = "\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50" // no authentication, then connected
)

// misbehaviour is one way to be a bad proxy.
type misbehaviour struct {
	why      string
	protocol probe.Protocol // HTTP by default
	secure   bool           // the target is https, so that a tunnel is needed
	password string
	serve    func(peer)
	reason   probe.Reason
	slow     bool // it takes until the timeout
}

func misbehaviours() map[string]misbehaviour {
	const http, https, socks = probe.HTTP, probe.HTTPS, probe.SOCKS5
	silent := func(p peer) { p.wait() }
	granting := func(then func(peer)) func(peer) {
		return func(p peer) {
			p.hear()
			p.say(established)
			then(p)
		}
	}
	return map[string]misbehaviour{
		"accepts and never answers":                {"the machine may be overloaded for good", http, false, "", silent, probe.ReasonTimeout, true},
		"accepts and never answers CONNECT":        {"the same", http, true, "", silent, probe.ReasonTimeout, true},
		"accepts and never answers TLS":            {"the same", https, true, "", silent, probe.ReasonTimeout, true},
		"accepts and never answers SOCKS":          {"the same", socks, true, "", silent, probe.ReasonTimeout, true},
		"grants a tunnel and never answers in it":  {"the same", http, true, "", granting(silent), probe.ReasonTimeout, true},
		"sends a byte at a time":                   {"each byte resets a timeout per read", http, false, "", trickle, probe.ReasonTimeout, true},
		"grants a tunnel and closes it":            {"a 200 is no traffic", http, true, "", says(established), probe.ReasonTunnelBroken, false},
		"grants a tunnel and resets it":            {"the same", http, true, "", granting(peer.reset), probe.ReasonTunnelBroken, false},
		"grants a tunnel and talks garbage":        {"nobody there speaks TLS", http, true, "", granting(says("no TLS, " + strings.Repeat("x", 99))), probe.ReasonTunnelBroken, false},
		"grants a tunnel with a page":              {"the page isn't the target's", http, true, "", says(established + "<html>"), probe.ReasonTunnelBroken, false},
		"grants a SOCKS tunnel and closes it":      {"the same without TLS", socks, false, "", socksThen(""), probe.ReasonTunnelBroken, false},
		"answers in a SOCKS tunnel unasked":        {"that isn't the target", socks, false, "", socksThen("HTTP/1.1 200 OK\r\n\r\n"), probe.ReasonTunnelBroken, false},
		"407 always, without credentials":          {"407 is no life: claffin/cloudproxy", http, false, "", says(authNeeded), probe.ReasonAuthRequired, false},
		"407 always, with credentials":             {"", http, false, "pw", says(authNeeded), probe.ReasonAuthFailed, false},
		"407 to CONNECT":                           {"", http, true, "pw", says(authNeeded), probe.ReasonAuthFailed, false},
		"407 to CONNECT, without credentials":      {"", http, true, "", says(authNeeded), probe.ReasonAuthRequired, false},
		"403 to CONNECT":                           {"a rule of its own", http, true, "", says("HTTP/1.1 403 No\r\n\r\n"), probe.ReasonRefused, false},
		"403 instead of the judge":                 {"it lacks the judge's header", http, false, "", says("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"), probe.ReasonRefused, false},
		"503 to CONNECT":                           {"inside a tunnel it would be the target's", http, true, "", says("HTTP/1.1 503 No\r\n\r\n"), probe.ReasonProxyError, false},
		"502 instead of the judge":                 {"", http, false, "", says("HTTP/1.1 502 No\r\nVia: 1.1 x\r\nContent-Length: 0\r\n\r\n"), probe.ReasonProxyError, false},
		"says that the target is down":             {"RFC 9209", http, false, "", says("HTTP/1.1 502 No\r\nProxy-Status: cdn; error=proxy_internal_error, x; error=connection_refused; details=\"a, b\"\r\n\r\n"), probe.ReasonTargetUnreachable, false},
		"says that the name is unknown":            {"the same for CONNECT", http, true, "", says("HTTP/1.1 502 No\r\nProxy-Status: x; error=dns_error\r\n\r\n"), probe.ReasonTargetUnreachable, false},
		"a page of its own instead of the judge's": {"a login page is no traffic", http, false, "", says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), probe.ReasonAltered, false},
		"resets":                                {"", http, false, "", func(p peer) { p.hear(); p.reset() }, probe.ReasonReset, false},
		"resets CONNECT":                        {"", http, true, "", func(p peer) { p.hear(); p.reset() }, probe.ReasonReset, false},
		"resets in the middle of the answer":    {"", http, false, "", func(p peer) { p.hear(); p.say("HTTP/1.1 200 OK\r\nX: "); p.resetLater() }, probe.ReasonReset, false},
		"half-closes at once":                   {"what it hears it never answers", http, false, "", halfClose, probe.ReasonNoAnswer, false},
		"half-closes before SOCKS":              {"", socks, false, "", halfClose, probe.ReasonNoAnswer, false},
		"cuts the header off":                   {"", http, false, "", says("HTTP/1.1 200 OK\r\nContent-Le"), probe.ReasonTruncated, false},
		"cuts the body off":                     {"half a page isn't a page", http, false, "", says("HTTP/1.1 200 OK\r\nX-Judge: proxy-operator\r\nContent-Length: 99\r\n\r\nhalf"), probe.ReasonTruncated, false},
		"cuts a chunk off":                      {"", http, false, "", says("HTTP/1.1 200 OK\r\nX-Judge: proxy-operator\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf"), probe.ReasonTruncated, false},
		"cuts a SOCKS reply off":                {"", socks, false, "", func(p peer) { p.take(3); p.say("\x05\x00\x05\x00"); p.take(10) }, probe.ReasonTruncated, false},
		"isn't HTTP":                            {"the port of another service", http, false, "", says("SSH-2.0-OpenSSH_9\r\n"), probe.ReasonBadAnswer, false},
		"answers HTTP by a TLS alert":           {"an HTTPS proxy, declared as HTTP", http, false, "", says("\x15\x03\x01\x00\x02\x02\x46"), probe.ReasonBadAnswer, false},
		"isn't quite HTTP":                      {"", http, false, "", says("HTTP/1.1 xx\r\n\r\n"), probe.ReasonBadAnswer, false},
		"isn't SOCKS":                           {"", socks, false, "", func(p peer) { p.take(3); p.say("HTTP/1.1 400 Bad\r\n\r\n") }, probe.ReasonBadAnswer, false},
		"isn't TLS":                             {"", https, false, "", func(p peer) { p.say("HTTP/1.1 400 Bad request, no TLS\r\n\r\n"); p.wait() }, probe.ReasonTLSError, false},
		"has no valid certificate":              {"", https, false, "", selfSigned, probe.ReasonTLSError, false},
		"intercepts":                            {"it reads what is meant for the target", http, true, "", granting(selfSigned), probe.ReasonIntercepted, false},
		"an endless header":                     {"it must not fill the memory", http, false, "", endless("HTTP/1.1 200 OK\r\n", "X: y\r\n"), probe.ReasonBadAnswer, false},
		"endless informational answers":         {"", http, false, "", endless("", "HTTP/1.1 100 Continue\r\n\r\n"), probe.ReasonBadAnswer, false},
		"no suitable SOCKS method":              {"", socks, false, "", func(p peer) { p.take(3); p.say("\x05\xff") }, probe.ReasonAuthRequired, false},
		"no suitable SOCKS method, credentials": {"", socks, false, "pw", func(p peer) { p.take(4); p.say("\x05\xff") }, probe.ReasonAuthFailed, false},
		"refuses the SOCKS password":            {"", socks, false, "pw", func(p peer) { p.take(4); p.say("\x05\x02\x01\x01"); p.wait() }, probe.ReasonAuthFailed, false},
		"chooses a SOCKS method not offered":    {"", socks, false, "", func(p peer) { p.take(3); p.say("\x05\x02"); p.wait() }, probe.ReasonBadAnswer, false},
		"forbids by SOCKS":                      {"", socks, false, "", socksCode(2), probe.ReasonRefused, false},
		"can't reach the target by SOCKS":       {"", socks, false, "", socksCode(5), probe.ReasonTargetUnreachable, false},
		"fails by SOCKS":                        {"", socks, false, "", socksCode(1), probe.ReasonProxyError, false},
	}
}

func TestAMisbehavingProxyIsBlamed(t *testing.T) {
	for name, tc := range misbehaviours() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, secure := judgeTargets(t)
			if tc.secure {
				target = secure
			}
			proxy := proxyAt(t, tc.protocol, badProxy(t, "127.0.0.1:0", tc.serve))
			if tc.password != "" {
				proxy = withPassword(proxy, "user", tc.password)
			}
			timeout := patience
			if tc.slow {
				timeout = brief
			}
			out := prober(timeout).Probe(context.Background(), proxy, target)
			require.Equal(t, probe.FaultProxy, out.Fault, "%s: %s", tc.why, out.Detail)
			require.Equal(t, tc.reason, out.Reason, "%s: %s", tc.why, out.Detail)
			require.Positive(t, out.Latency)
			if tc.slow {
				require.Less(t, out.Latency, 5*brief, "bounded as a whole")
			}
			require.LessOrEqual(t, len(out.Detail), 100)
		})
	}
}

// trickle would take a minute to send a good answer.
func trickle(p peer) {
	p.hear()
	for _, c := range "HTTP/1.1 200 OK\r\nX-Judge: proxy-operator\r\nContent-Length: 99\r\n\r\n" + strings.Repeat(" ", 99) {
		if _, err := p.Write([]byte(string(c))); err != nil {
			return
		}
		<-time.After(brief / 4)
	}
}

func halfClose(p peer) {
	_ = p.CloseWrite()
	p.wait()
}

// selfSigned speaks TLS with a certificate that nobody trusts.
func selfSigned(p peer) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return
	}
	certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	conn := tls.Server(p, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	_ = conn.HandshakeContext(context.Background())
}

func endless(first, more string) func(peer) {
	return func(p peer) {
		p.hear()
		p.say(first)
		for {
			if _, err := io.WriteString(p, strings.Repeat(more, 100)); err != nil {
				return
			}
		}
	}
}

// take reads n bytes.
func (p peer) take(n int64) { _, _ = io.CopyN(io.Discard, p.in, n) }

// resetLater resets when what was said has arrived.
func (p peer) resetLater() {
	<-time.After(brief / 8)
	p.reset()
}

func socksThen(text string) func(peer) {
	return func(p peer) {
		p.take(3)
		p.say(socksOpen[:2])
		p.take(10)
		p.say(socksOpen[2:] + text)
	}
}

func socksCode(code byte) func(peer) {
	return func(p peer) {
		p.take(3)
		p.say("\x05\x00")
		p.take(10)
		p.say("\x05" + string(rune(code)) + "\x00\x01\x00\x00\x00\x00\x00\x00")
	}
}

func TestNoSecretAndNoWordOfTheProxyIsInTheDetail(t *testing.T) {
	target, _ := judgeTargets(t)
	echo := badProxy(t, "127.0.0.1:0", func(p peer) {
		r, err := http.ReadRequest(p.in)
		if err == nil {
			p.say("HTTP/1.1 5x3 " + r.Header.Get("Proxy-Authorization") + "\r\n\r\n")
		}
	})
	out := prober(patience).Probe(context.Background(), withPassword(proxyAt(t, probe.HTTP, echo), "someone", "hunter2"), target)
	require.Equal(t, probe.ReasonBadAnswer, out.Reason)
	require.Equal(t, "not a valid answer", out.Detail)
}

func TestNothingIsLeftOfFailedProbes(t *testing.T) {
	open := func() int {
		files, err := os.ReadDir("/dev/fd")
		require.NoError(t, err)
		return len(files)
	}
	silent := badProxy(t, "127.0.0.1:0", func(p peer) { p.wait() })
	broken := badProxy(t, "127.0.0.1:0", says(established))
	_, target := judgeTargets(t)
	running := goleak.IgnoreCurrent()
	descriptors := open()
	for range 50 {
		prober(5*time.Millisecond).Probe(context.Background(), proxyAt(t, probe.HTTP, silent), target)
		prober(patience).Probe(context.Background(), proxyAt(t, probe.HTTP, broken), target)
	}
	goleak.VerifyNone(t, running)
	require.Eventually(t, func() bool { return open() <= descriptors }, patience, 10*time.Millisecond)
}
