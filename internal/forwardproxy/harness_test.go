// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

// patience bounds what should happen at once; only a failing test waits for it.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if dir := os.Getenv(runEnv); dir != "" {
		os.Exit(runUntilStdinEnds(dir))
	}
	goleak.VerifyTestMain(m)
}

// proxy is a running Server.
type proxy struct {
	*forwardproxy.Server
	address string
	cancel  context.CancelFunc
	ended   chan error
}

func startProxy(tb testing.TB, cfg forwardproxy.Config) *proxy {
	tb.Helper()
	server, err := forwardproxy.New(cfg)
	require.NoError(tb, err)
	listener, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(tb, err)
	return serve(tb, server, listener)
}

func serve(tb testing.TB, server *forwardproxy.Server, listener net.Listener) *proxy {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &proxy{Server: server, address: listener.Addr().String(), cancel: cancel, ended: make(chan error, 1)}
	go func() { p.ended <- server.Serve(ctx, listener) }()
	tb.Cleanup(func() { require.NoError(tb, p.stop(tb)) })
	return p
}

// stop ends the proxy and returns what Serve returned.
func (p *proxy) stop(tb testing.TB) error {
	tb.Helper()
	p.cancel()
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(patience):
		require.Fail(tb, "Serve didn't end")
		return nil
	}
}

// client is a real net/http client that goes through the proxy.
func (p *proxy) client(tb testing.TB, user *url.Userinfo, roots *x509.CertPool) *http.Client {
	tb.Helper()
	transport := &http.Transport{
		Proxy:                 http.ProxyURL(&url.URL{Scheme: "http", User: user, Host: p.address}),
		DisableCompression:    true,
		ExpectContinueTimeout: patience,
		MaxIdleConnsPerHost:   16,
	}
	if roots != nil {
		transport.TLSClientConfig = tlsConfig(roots)
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// rawConn is a client that says exactly what a test wants said.
type rawConn struct {
	*net.TCPConn
	tb     testing.TB
	reader *bufio.Reader
}

func dialRaw(tb testing.TB, address string) *rawConn {
	tb.Helper()
	var d net.Dialer
	conn, err := d.DialContext(context.Background(), "tcp", address)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	require.NoError(tb, conn.SetDeadline(clock.RealClock{}.Now().Add(patience)))
	tcp, ok := conn.(*net.TCPConn)
	require.True(tb, ok)
	return &rawConn{TCPConn: tcp, tb: tb, reader: bufio.NewReader(conn)}
}

func (c *rawConn) say(text string) {
	c.tb.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(c.tb, err)
}

// hear reads exactly the expected bytes.
func (c *rawConn) hear(text string) {
	c.tb.Helper()
	buf := make([]byte, len(text))
	n, err := io.ReadFull(c.reader, buf)
	require.NoError(c.tb, err, "heard %q", buf[:n])
	require.Equal(c.tb, text, string(buf))
}

// answer is a response that has been read to its end.
type answer struct {
	StatusCode      int
	Header, Trailer http.Header
	ContentLength   int64
	Close           bool
	TLS             *tls.ConnectionState
}

// readAnswer takes a response's body, unless the connection's rest isn't one.
func readAnswer(tb testing.TB, res *http.Response, hasBody bool) (answer, string) {
	tb.Helper()
	var body []byte
	if hasBody {
		var err error
		body, err = io.ReadAll(res.Body)
		require.NoError(tb, err)
	}
	require.NoError(tb, res.Body.Close())
	return answer{
		StatusCode: res.StatusCode, Header: res.Header, Trailer: res.Trailer,
		ContentLength: res.ContentLength, Close: res.Close, TLS: res.TLS,
	}, string(body)
}

// response reads one response to a request of the given method, body included.
func (c *rawConn) response(method string) (answer, string) {
	c.tb.Helper()
	res, err := http.ReadResponse(c.reader, &http.Request{Method: method})
	require.NoError(c.tb, err)
	isTunnel := res.StatusCode == http.StatusSwitchingProtocols || (method == http.MethodConnect && res.StatusCode == http.StatusOK)
	return readAnswer(c.tb, res, !isTunnel)
}

// rest reads until the peer ends the connection in whatever way.
func (c *rawConn) rest() (string, error) {
	all, err := io.ReadAll(c.reader)
	return string(all), err
}

func startOrigin(tb testing.TB, handler http.HandlerFunc) *httptest.Server {
	tb.Helper()
	origin := httptest.NewServer(handler)
	tb.Cleanup(origin.Close)
	return origin
}

// rawOrigin serves each connection with raw bytes.
func rawOrigin(tb testing.TB, handle func(conn *net.TCPConn, reader *bufio.Reader)) (hostPort string) {
	tb.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if tcp, ok := conn.(*net.TCPConn); ok {
					handle(tcp, bufio.NewReader(conn))
				}
			}()
		}
	}()
	tb.Cleanup(func() {
		require.NoError(tb, listener.Close())
		<-done
	})
	return listener.Addr().String()
}

// answering is an origin that answers every connection's first request with
// fixed bytes and then closes.
func answering(tb testing.TB, answer string) (hostPort string, seen <-chan string) {
	tb.Helper()
	requests := make(chan string, 8)
	address := rawOrigin(tb, func(conn *net.TCPConn, reader *bufio.Reader) {
		head := readHead(reader)
		if head == "" {
			return
		}
		requests <- head
		_, _ = io.WriteString(conn, answer)
	})
	return address, requests
}

// readHead reads a request's header as it came.
func readHead(reader *bufio.Reader) string {
	head := ""
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return ""
		}
		head += line
		if line == "\r\n" {
			return head
		}
	}
}

// receive takes one value or fails.
func receive[T any](tb testing.TB, from <-chan T) T {
	tb.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(tb, "nothing came")
	}
	var none T
	return none
}

func get(tb testing.TB, client *http.Client, target string) (answer, string) {
	tb.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, target, nil)
	require.NoError(tb, err)
	return do(tb, client, req)
}

func do(tb testing.TB, client *http.Client, req *http.Request) (answer, string) {
	tb.Helper()
	res, err := client.Do(req)
	require.NoError(tb, err)
	return readAnswer(tb, res, true)
}
