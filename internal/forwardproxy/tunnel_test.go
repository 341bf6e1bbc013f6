// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

func tlsConfig(roots *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func rootsOf(origin *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(origin.Certificate())
	return roots
}

func TestHTTPSGoesThroughATunnel(t *testing.T) {
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+r.URL.Path+r.Header.Get("Proxy-Authorization"))
	}))
	t.Cleanup(origin.Close)
	p := startProxy(t, forwardproxy.Config{})
	res, body := get(t, p.client(t, nil, rootsOf(origin)), origin.URL+"/page")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, origin.Listener.Addr().String()+"/page", body)
	require.Equal(t, origin.Certificate().Raw, res.TLS.PeerCertificates[0].Raw, "the client sees the origin's own certificate")
}

// openTunnel connects a raw client to a target.
func openTunnel(t *testing.T, p *proxy, target string) *rawConn {
	t.Helper()
	c := dialRaw(t, p.address)
	c.say("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
	c.hear("HTTP/1.1 200 Connection established\r\n\r\n")
	return c
}

func TestClientsHalfCloseReachesTheOrigin(t *testing.T) {
	origin := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) {
		all, err := io.ReadAll(reader)
		if err == nil {
			_, _ = io.WriteString(conn, "got "+string(all))
		}
	})
	c := openTunnel(t, startProxy(t, forwardproxy.Config{}), origin)
	c.say("everything")
	require.NoError(t, c.CloseWrite())
	rest, err := c.rest()
	require.NoError(t, err)
	require.Equal(t, "got everything", rest)
}

func TestOriginsHalfCloseReachesTheClient(t *testing.T) {
	got := make(chan string, 1)
	origin := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) {
		_, _ = io.WriteString(conn, "that was all")
		_ = conn.CloseWrite()
		all, _ := io.ReadAll(reader)
		got <- string(all)
	})
	c := openTunnel(t, startProxy(t, forwardproxy.Config{}), origin)
	rest, err := c.rest()
	require.NoError(t, err)
	require.Equal(t, "that was all", rest)
	c.say("but I go on")
	require.NoError(t, c.CloseWrite())
	require.Equal(t, "but I go on", receive(t, got))
}

func TestOriginsResetReachesTheClientAsAReset(t *testing.T) {
	origin := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) {
		_, _ = reader.ReadByte()
		_ = conn.SetLinger(0)
	})
	c := openTunnel(t, startProxy(t, forwardproxy.Config{}), origin)
	c.say("x")
	_, err := c.rest()
	require.ErrorIs(t, err, syscall.ECONNRESET, "a clean end would hide the break")
}

func TestBytesSentAlongWithTheConnectArrive(t *testing.T) {
	origin := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) { _, _ = io.Copy(conn, reader) })
	p := startProxy(t, forwardproxy.Config{})
	c := dialRaw(t, p.address)
	c.say("CONNECT " + origin + " HTTP/1.1\r\nHost: x\r\n\r\nearly ")
	c.hear("HTTP/1.1 200 Connection established\r\n\r\n")
	c.say("late")
	c.hear("early late")
	require.NoError(t, c.CloseWrite())
	_, err := c.rest()
	require.NoError(t, err)
}

func TestTunnelTargetsThatAreRefused(t *testing.T) {
	p := startProxy(t, forwardproxy.Config{})
	cases := map[string]struct{ why, request, want string }{
		"no port":           {"there is no default port for a tunnel", "CONNECT example.com HTTP/1.1\r\nHost: x\r\n\r\n", `CONNECT needs HOST:PORT, got "example.com"`},
		"no host":           {"it would be this machine", "CONNECT :80 HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT needs HOST:PORT"},
		"port 0":            {"nothing listens there", "CONNECT h:0 HTTP/1.1\r\nHost: x\r\n\r\n", "not a number from 1 to 65535"},
		"port 65536":        {"it doesn't exist", "CONNECT h:65536 HTTP/1.1\r\nHost: x\r\n\r\n", "not a number from 1 to 65535"},
		"a path":            {"net/http lets it pass", "CONNECT /x HTTP/1.1\r\nHost: h:1\r\n\r\n", "CONNECT needs HOST:PORT"},
		"a body":            {"its end would be a matter of opinion", "CONNECT h:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "a CONNECT has no body"},
		"a chunked body":    {"its end would be a matter of opinion", "CONNECT h:1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "a CONNECT has no body"},
		"absolute no host":  {"there is nobody to ask", "GET http:///x HTTP/1.1\r\nHost: x\r\n\r\n", "names no host"},
		"absolute port 0":   {"nothing listens there", "GET http://h:0/ HTTP/1.1\r\nHost: x\r\n\r\n", "not a number from 1 to 65535"},
		"another scheme":    {"only HTTP is carried", "GET ftp://h/ HTTP/1.1\r\nHost: x\r\n\r\n", `scheme "ftp" is not http or https`},
		"an opaque address": {"it has no host", "GET mailto:a@b HTTP/1.1\r\nHost: x\r\n\r\n", `scheme "mailto" is not http or https`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, p.address)
			c.say(tc.request)
			method, _, _ := strings.Cut(tc.request, " ")
			res, body := c.response(method)
			require.Equal(t, http.StatusBadRequest, res.StatusCode, tc.why)
			require.Equal(t, "proxy-operator; error=http_request_error", res.Header.Get("Proxy-Status"))
			require.Contains(t, body, tc.want, tc.why)
			require.Equal(t, 1, strings.Count(body, "\n"), "one line")
		})
	}
}

func TestRefusedConnectEndsTheConnection(t *testing.T) {
	p := startProxy(t, forwardproxy.Config{})
	c := dialRaw(t, p.address)
	c.say("CONNECT h:0 HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	res, _ := c.response(http.MethodConnect)
	require.True(t, res.Close)
	rest, err := c.rest()
	require.Empty(t, rest, "what was meant for the tunnel is no request to us")
	require.True(t, err == nil || errors.Is(err, syscall.ECONNRESET), err)
}
