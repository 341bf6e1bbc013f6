// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

func TestAHealthyProxyIsSeenAsSuch(t *testing.T) {
	plain, secure := judgeTargets(t)
	open := forwardProxy(t, forwardproxy.Config{})
	guarded := forwardProxy(t, forwardproxy.Config{Username: "user", Password: "p:w \u00e9"})
	wrapped := httptest.NewTLSServer(relay(open))
	t.Cleanup(wrapped.Close)
	tlsProxy := proxyAt(t, probe.HTTPS, wrapped.Listener.Addr().String())
	tlsProxy.RootCAs = rootsOf(wrapped)
	careless := tlsProxy
	careless.RootCAs, careless.InsecureSkipVerify = nil, true
	cases := map[string]struct {
		why    string
		proxy  probe.Proxy
		target probe.Target
	}{
		"absolute form":                   {"", proxyAt(t, probe.HTTP, open), plain},
		"CONNECT":                         {"", proxyAt(t, probe.HTTP, open), secure},
		"absolute form, credentials":      {"", withPassword(proxyAt(t, probe.HTTP, guarded), "user", "p:w \u00e9"), plain},
		"CONNECT, credentials":            {"", withPassword(proxyAt(t, probe.HTTP, guarded), "user", "p:w \u00e9"), secure},
		"HTTPS proxy":                     {"TLS with the proxy, then absolute form", tlsProxy, plain},
		"HTTPS proxy, CONNECT":            {"TLS within TLS", tlsProxy, secure},
		"HTTPS proxy, not verified":       {"the user's choice", careless, secure},
		"a target by redirect":            {"302 is an answer of the target", proxyAt(t, probe.HTTP, open), plainTarget(t, answers(http.StatusFound))},
		"a target with a status expected": {"", proxyAt(t, probe.HTTP, open), expecting(plainTarget(t, answers(http.StatusTeapot)), http.StatusTeapot)},
		"a target of many bytes":          {"what is beyond the limit isn't read", proxyAt(t, probe.HTTP, open), secureTarget(t, page(1<<20))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := prober(patience).Probe(context.Background(), tc.proxy, tc.target)
			require.Equal(t, probe.ReasonHealthy, out.Reason, "%s: %s", tc.why, out.Detail)
			require.Equal(t, probe.FaultNone, out.Fault)
			require.Positive(t, out.ConnectLatency)
			require.Greater(t, out.Latency, out.ConnectLatency)
			if tc.target.Judge {
				require.Equal(t, "127.0.0.1", out.ExitIP)
				require.Equal(t, probe.AnonymityElite, out.Anonymity, "our own proxy tells nothing")
			}
		})
	}
}

// relay is a handler that passes the bytes of each connection on to a proxy.
func relay(to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upstream, err := new(net.Dialer).DialContext(r.Context(), "tcp", to)
		if err != nil {
			return
		}
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _, _ = client.Close(), upstream.Close() }()
		r.Host = r.URL.Host // else WriteProxy takes CONNECT for a path
		if r.Method == http.MethodConnect {
			_, _ = io.WriteString(upstream, "CONNECT "+r.RequestURI+" HTTP/1.1\r\nHost: "+r.RequestURI+"\r\n\r\n")
		} else {
			_ = r.WriteProxy(upstream)
		}
		var both sync.WaitGroup
		both.Go(func() {
			_, _ = io.Copy(upstream, buffered)
			_ = upstream.Close()
		})
		_, _ = io.Copy(client, upstream)
		_ = client.Close()
		both.Wait()
	})
}

func expecting(t probe.Target, status ...int) probe.Target {
	t.ExpectStatus = status
	return t
}

func page(size int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
}

func TestTheTargetsFailureIsNotTheProxys(t *testing.T) {
	proxy := proxyAt(t, probe.HTTP, forwardProxy(t, forwardproxy.Config{}))
	hangsUp := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close() // with TLS's own farewell
		}
	})
	garbage := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "Hello\r\n\r\n")
			_ = conn.Close()
		}
	})
	cases := map[string]struct {
		why    string
		target probe.Target
		fault  probe.Fault
		reason probe.Reason
	}{
		"500 by CONNECT":              {"inside TLS only the target speaks", secureTarget(t, answers(500)), probe.FaultTarget, probe.ReasonTargetError},
		"502 by CONNECT":              {"the same", secureTarget(t, answers(502)), probe.FaultTarget, probe.ReasonTargetError},
		"407 by CONNECT":              {"the same", secureTarget(t, answers(407)), probe.FaultTarget, probe.ReasonTargetError},
		"403 by CONNECT":              {"the target may block the exit address", secureTarget(t, answers(403)), probe.FaultTarget, probe.ReasonTargetError},
		"404":                         {"a proxy makes no 404", plainTarget(t, answers(404)), probe.FaultTarget, probe.ReasonTargetError},
		"500":                         {"nor a 500 without saying who it is", plainTarget(t, answers(500)), probe.FaultTarget, probe.ReasonTargetError},
		"200 where 204 is expected":   {"", expecting(plainTarget(t, answers(200)), 204), probe.FaultTarget, probe.ReasonTargetError},
		"405 of the judge":            {"the judge says by its header that it is its own", judged(plainTarget(t, judgeRefuses())), probe.FaultTarget, probe.ReasonTargetError},
		"502 of the judge":            {"the same", judged(plainTarget(t, judgeSays(502))), probe.FaultTarget, probe.ReasonTargetError},
		"hangs up within TLS":         {"TLS tells a proper end from a cut", secureTarget(t, hangsUp), probe.FaultTarget, probe.ReasonTargetError},
		"talks garbage within TLS":    {"", secureTarget(t, garbage), probe.FaultTarget, probe.ReasonTargetError},
		"503":                         {"it may be the proxy's: only the control request tells", plainTarget(t, answers(503)), probe.FaultProxy, probe.ReasonProxyError},
		"407, though it was expected": {"it is never good", expecting(plainTarget(t, answers(407)), 407), probe.FaultProxy, probe.ReasonAuthRequired},
		"down":                        {"the proxy says so; only the control request clears it", probe.Target{URL: "http://" + deadAddress(t)}, probe.FaultProxy, probe.ReasonTargetUnreachable},
		"down, by CONNECT":            {"the same", probe.Target{URL: "https://" + deadAddress(t)}, probe.FaultProxy, probe.ReasonTargetUnreachable},
		"certificate not valid":       {"the same", probe.Target{URL: secureTarget(t, page(1)).URL}, probe.FaultProxy, probe.ReasonIntercepted},
		"not the judge":               {"the same", judged(plainTarget(t, page(1))), probe.FaultProxy, probe.ReasonAltered},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := prober(patience)
			out := p.Probe(context.Background(), proxy, tc.target)
			require.Equal(t, tc.reason, out.Reason, "%s: %s", tc.why, out.Detail)
			require.Equal(t, tc.fault, out.Fault, "%s: %s", tc.why, out.Detail)

			control := p.Control(context.Background(), tc.target)
			require.Equal(t, probe.FaultTarget, control.Fault, control.Detail)
			require.Contains(t, []probe.Reason{probe.ReasonTargetError, probe.ReasonTargetUnreachable}, control.Reason)
		})
	}
}

func judgeSays(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Judge", "proxy-operator")
		w.WriteHeader(code)
	})
}

func judgeRefuses() http.Handler { return judgeSays(http.StatusMethodNotAllowed) }

// deadAddress is one where nobody listens.
func deadAddress(tb testing.TB) string {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	require.NoError(tb, listener.Close())
	return listener.Addr().String()
}

func TestAControlThatSucceedsTellsTheOwnAddress(t *testing.T) {
	plain, secure := judgeTargets(t)
	for _, target := range []probe.Target{plain, secure} {
		out := prober(patience).Control(context.Background(), target)
		require.Equal(t, probe.FaultNone, out.Fault, out.Detail)
		require.Equal(t, "127.0.0.1", out.ExitIP)
		require.Empty(t, out.Anonymity)
	}
}

func TestTheJudgeSeesWhatAProxyDoes(t *testing.T) {
	target, _ := judgeTargets(t)
	add := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	replace := func(old, by string) func(*http.Response) {
		return func(res *http.Response) {
			body, _ := io.ReadAll(res.Body)
			changed := bytes.ReplaceAll(body, []byte(old), []byte(by))
			res.Body = io.NopCloser(bytes.NewReader(changed))
			res.Header.Del("Content-Length")
		}
	}
	cases := map[string]struct {
		why       string
		request   func(*http.Request)
		answer    func(*http.Response)
		reason    probe.Reason
		anonymity string
	}{
		"tells nothing":             {"", nil, nil, probe.ReasonHealthy, probe.AnonymityElite},
		"injects Via":               {"it tells that there is a proxy", add("Via", "1.1 x"), nil, probe.ReasonHealthy, probe.AnonymityAnonymous},
		"injects X-Forwarded-For":   {"it tells for whom", add("X-Forwarded-For", "127.0.0.1"), nil, probe.ReasonHealthy, probe.AnonymityTransparent},
		"injects Forwarded":         {"the same by RFC 7239", add("Forwarded", `for="127.0.0.1:99";proto=http`), nil, probe.ReasonHealthy, probe.AnonymityTransparent},
		"lies about the client":     {"that isn't our address", add("X-Forwarded-For", "127.0.0.11"), nil, probe.ReasonHealthy, probe.AnonymityAnonymous},
		"rewrites the body":         {"", nil, replace("source", "sourcE"), probe.ReasonAltered, ""},
		"forges the exit address":   {"the digest tells", nil, replace("127.0.0.1", "192.0.2.1"), probe.ReasonAltered, ""},
		"changes the nonce it sees": {"the answer is to somebody else", func(r *http.Request) { r.URL.RawQuery = "nonce=x" }, nil, probe.ReasonStale, ""},
		"removes the judge's name":  {"", nil, func(res *http.Response) { res.Header.Del("X-Judge") }, probe.ReasonAltered, ""},
		"removes the digest":        {"", nil, func(res *http.Response) { res.Header.Del("Content-Digest") }, probe.ReasonAltered, ""},
		"answers for the judge":     {"", nil, func(res *http.Response) { res.StatusCode = http.StatusTeapot; res.Header.Del("X-Judge") }, probe.ReasonRefused, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			proxy := proxyAt(t, probe.HTTP, bentProxy(t, tc.request, tc.answer))
			out := prober(patience).Probe(context.Background(), proxy, target)
			require.Equal(t, tc.reason, out.Reason, "%s: %s", tc.why, out.Detail)
			require.Equal(t, tc.reason == probe.ReasonHealthy, out.Fault == probe.FaultNone)
			require.Equal(t, tc.anonymity, out.Anonymity, tc.why)
		})
	}
}

func TestACacheIsSeen(t *testing.T) {
	target, _ := judgeTargets(t)
	cachable := target
	cachable.URL += "/x?cache=1"
	cases := map[string]struct {
		why    string
		target probe.Target
		key    func(*http.Request) string
		second probe.Reason
		cached bool
	}{
		"one that keeps to the rules":      {"every URL is fresh", target, func(r *http.Request) string { return r.URL.String() }, probe.ReasonHealthy, false},
		"one that ignores the query":       {"the answer is an old one", target, func(r *http.Request) string { return r.URL.Path }, probe.ReasonStale, true},
		"one that may, and does":           {"the judge allowed it", cachable, func(r *http.Request) string { return r.URL.String() }, probe.ReasonHealthy, true},
		"one that may, and doesn't at all": {"", cachable, func(*http.Request) string { return "" }, probe.ReasonHealthy, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			store := map[string]*http.Response{}
			var mu sync.Mutex
			var current string
			proxy := proxyAt(t, probe.HTTP, bentProxy(t,
				func(r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					current = tc.key(r)
				},
				func(res *http.Response) {
					mu.Lock()
					defer mu.Unlock()
					if old := store[current]; old != nil && current != "" {
						res.Header = old.Header
						body, _ := io.ReadAll(old.Body)
						res.Body = io.NopCloser(bytes.NewReader(body))
						return
					}
					body, _ := io.ReadAll(res.Body)
					res.Body = io.NopCloser(bytes.NewReader(body))
					store[current] = &http.Response{Header: res.Header, Body: io.NopCloser(bytes.NewReader(body))}
				}))
			first := prober(patience).Probe(context.Background(), proxy, tc.target)
			require.Equal(t, probe.ReasonHealthy, first.Reason, first.Detail)
			require.False(t, first.Cached)
			second := prober(patience).Probe(context.Background(), proxy, tc.target)
			require.Equal(t, tc.second, second.Reason, "%s: %s", tc.why, second.Detail)
			require.Equal(t, tc.cached, second.Cached, tc.why)
		})
	}
}

func TestAnOpenProxyIsFound(t *testing.T) {
	plain, secure := judgeTargets(t)
	guarded := forwardProxy(t, forwardproxy.Config{Username: "user", Password: "pw"})
	open := forwardProxy(t, forwardproxy.Config{})
	unread := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusProxyAuthRequired)
		}
	}))
	t.Cleanup(unread.Close)
	socks := func(p peer) {
		p.take(3)
		p.say(socksOpen[:2])
		p.take(10)
		p.say(socksOpen[2:])
		says("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")(p)
	}
	anything := probe.Target{URL: plain.URL}
	cases := map[string]struct {
		why    string
		proxy  probe.Proxy
		target probe.Target
		fault  probe.Fault
		reason probe.Reason
	}{
		"one that asks":               {"", proxyAt(t, probe.HTTP, guarded), plain, probe.FaultNone, probe.ReasonHealthy},
		"one that asks, by CONNECT":   {"", proxyAt(t, probe.HTTP, guarded), secure, probe.FaultNone, probe.ReasonHealthy},
		"one that doesn't ask":        {"", proxyAt(t, probe.HTTP, open), plain, probe.FaultProxy, probe.ReasonOpenProxy},
		"the same by CONNECT":         {"", proxyAt(t, probe.HTTP, open), secure, probe.FaultProxy, probe.ReasonOpenProxy},
		"one that takes any password": {"it asks, and doesn't look", proxyAt(t, probe.HTTP, unread.Listener.Addr().String()), anything, probe.FaultProxy, probe.ReasonOpenProxy},
		"an open SOCKS one":           {"the target's 404 came through", proxyAt(t, probe.SOCKS5, badProxy(t, "127.0.0.1:0", socks)), plain, probe.FaultProxy, probe.ReasonOpenProxy},
		"one that is down":            {"it can't be told", proxyAt(t, probe.HTTP, deadAddress(t)), plain, probe.FaultUnclear, probe.ReasonConnectRefused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := prober(patience).Open(context.Background(), withPassword(tc.proxy, "user", "pw"), tc.target)
			require.Equal(t, tc.reason, out.Reason, "%s: %s", tc.why, out.Detail)
			require.Equal(t, tc.fault, out.Fault, tc.why)
		})
	}
	out := prober(patience).Open(context.Background(), proxyAt(t, probe.HTTP, deadAddress(t)), plain)
	require.Equal(t, probe.ReasonHealthy, out.Reason, "nobody is asked about a proxy without credentials")
}

func TestASOCKSProxyThatWantsNoPasswordIsOpen(t *testing.T) {
	serve := func(p peer) {
		p.take(4) // both ways are offered
		p.say("\x05\x00")
		p.take(10)
		p.say(socksOpen[2:])
		p.hear()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
	proxy := withPassword(proxyAt(t, probe.SOCKS5, badProxy(t, "127.0.0.1:0", serve)), "user", "pw")
	out := prober(patience).Probe(context.Background(), proxy, probe.Target{URL: "http://127.0.0.1"})
	require.Equal(t, probe.ReasonOpenProxy, out.Reason, out.Detail)
	require.Equal(t, probe.FaultProxy, out.Fault)
}

func TestBytesChangedInsideATunnelAreSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		why    string
		from   int64 // which write of the target's is changed
		reason probe.Reason
	}{
		"during the handshake": {"", 1, probe.ReasonTunnelBroken},
		"after it":             {"", 2, probe.ReasonAltered},
	} {
		t.Run(name, func(t *testing.T) {
			_, secure := judgeTargets(t)
			address := strings.TrimPrefix(secure.URL, "https://")
			proxy := badProxy(t, "127.0.0.1:0", func(p peer) {
				p.hear()
				p.say(established)
				upstream, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
				if err != nil {
					return
				}
				defer func() { _ = upstream.Close() }()
				var sent atomic.Int64 // writes of the client's
				var both sync.WaitGroup
				both.Go(func() {
					flip(p, upstream, func() bool { return sent.Load() >= tc.from })
					_ = p.CloseWrite()
				})
				count(upstream, p.in, &sent)
				_ = upstream.Close()
				both.Wait()
			})
			out := prober(patience).Probe(context.Background(), proxyAt(t, probe.HTTP, proxy), secure)
			require.Equal(t, tc.reason, out.Reason, out.Detail)
			require.Equal(t, probe.FaultProxy, out.Fault)
		})
	}
}

func count(to io.Writer, from io.Reader, n *atomic.Int64) {
	b := make([]byte, 32<<10)
	for {
		k, err := from.Read(b)
		if err != nil {
			return
		}
		n.Add(1)
		if _, err := to.Write(b[:k]); err != nil {
			return
		}
	}
}

func flip(to io.Writer, from io.Reader, now func() bool) {
	b := make([]byte, 32<<10)
	for {
		k, err := from.Read(b)
		if err != nil {
			return
		}
		if now() {
			b[min(10, k-1)] ^= 1 // inside the first record, past its header
		}
		if _, err := to.Write(b[:k]); err != nil {
			return
		}
	}
}
