// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/judge"
)

const (
	// patience is for what must not happen to take long, brief for what must.
	patience = 20 * time.Second
	brief    = 400 * time.Millisecond
)

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		os.Exit(serveFarEnd())
	}
	goleak.VerifyTestMain(m)
}

// prober may go everywhere: all tests are on loopback.
func prober(timeout time.Duration) *probe.Prober {
	return &probe.Prober{Timeout: timeout, Deny: []netip.Prefix{}, DenyProxy: []netip.Prefix{}}
}

// proxyAt is the way to a proxy that listens on address.
func proxyAt(tb testing.TB, protocol probe.Protocol, address string) probe.Proxy {
	tb.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(tb, err)
	n, err := strconv.Atoi(port)
	require.NoError(tb, err)
	return probe.Proxy{Host: host, Port: n, Protocol: protocol}
}

func withPassword(p probe.Proxy, user, password string) probe.Proxy {
	p.Username, p.Password = user, password
	return p
}

// plainTarget and secureTarget are targets that a handler answers.
func plainTarget(tb testing.TB, h http.Handler) probe.Target {
	tb.Helper()
	s := httptest.NewServer(h)
	tb.Cleanup(s.Close)
	return probe.Target{URL: s.URL}
}

func secureTarget(tb testing.TB, h http.Handler) probe.Target {
	tb.Helper()
	s := httptest.NewTLSServer(h)
	tb.Cleanup(s.Close)
	return probe.Target{URL: s.URL, RootCAs: rootsOf(s)}
}

func rootsOf(s *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

func judged(t probe.Target) probe.Target {
	t.Judge = true
	return t
}

func judgeTargets(tb testing.TB) (plain, secure probe.Target) {
	tb.Helper()
	return judged(plainTarget(tb, judge.Handler())), judged(secureTarget(tb, judge.Handler()))
}

func answers(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// forwardProxy is our own, a healthy one.
func forwardProxy(tb testing.TB, cfg forwardproxy.Config) string {
	tb.Helper()
	server, err := forwardproxy.New(cfg)
	require.NoError(tb, err)
	listener, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	tb.Cleanup(func() {
		cancel()
		require.NoError(tb, <-ended)
	})
	return listener.Addr().String()
}

// peer is one accepted connection of a proxy that a test wrote.
type peer struct {
	*net.TCPConn
	in *bufio.Reader
}

// badProxy serves each connection with handle, which must end when the connection
// does.
func badProxy(tb testing.TB, address string, handle func(peer)) string {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	require.NoError(tb, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			tcp, ok := conn.(*net.TCPConn)
			if !ok {
				return
			}
			all.Go(func() {
				defer func() { _ = tcp.Close() }()
				handle(peer{tcp, bufio.NewReader(tcp)})
			})
		}
	})
	tb.Cleanup(func() {
		require.NoError(tb, listener.Close())
		all.Wait()
	})
	return listener.Addr().String()
}

// hear reads a request.
func (p peer) hear() { _, _ = http.ReadRequest(p.in) }

func (p peer) say(text string) { _, _ = io.WriteString(p, text) }

// waits until the client has gone.
func (p peer) wait() { _, _ = io.Copy(io.Discard, p.in) }

func (p peer) reset() {
	_ = p.SetLinger(0)
	_ = p.Close()
}

// says answers every request with the same bytes.
func says(text string) func(peer) {
	return func(p peer) {
		p.hear()
		p.say(text)
	}
}

// bentProxy passes requests in absolute form on, and lets a test change them and
// their answers.
func bentProxy(tb testing.TB, request func(*http.Request), answer func(*http.Response)) string {
	tb.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.RequestURI = ""
		for _, hop := range []string{"Connection", "Proxy-Authorization"} {
			out.Header.Del(hop)
		}
		if request != nil {
			request(out)
		}
		res, err := transport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = res.Body.Close() }()
		if answer != nil {
			answer(res)
		}
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	tb.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(tb, err)
	return u.Host
}
