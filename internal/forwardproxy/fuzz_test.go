// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

// FuzzSocket sends arbitrary bytes to the proxy's port. Whatever they are, what
// comes back is HTTP or nothing, and the proxy lives.
func FuzzSocket(f *testing.F) {
	for _, seed := range []string{
		"", "\r\n\r\n", "\x00\x01\x02", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\x05\x01\x00", "\x04\x01\x00P\x7f\x00\x00\x01\x00",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://a/ HTTP/9.9\r\nHost: a\r\n\r\n",
		"GET http://[::1%25eth0]:99999/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://%zz/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http:a HTTP/1.1\r\nHost: a\r\n\r\n",
		"OPTIONS http://a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n",
		"CONNECT a:1 HTTP/1.0\r\n\r\nrest",
		"CONNECT : HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT [::1]:80 HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
		"POST http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nUpgrade: \x80\r\nConnection: upgrade\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic \xff\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: Host, Content-Length\r\nTE: trailers\r\n\r\n",
		"GET http://a/" + strings.Repeat("a", 100_000) + " HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	origin := startOrigin(f, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	server, err := forwardproxy.New(forwardproxy.Config{})
	require.NoError(f, err)
	server.SetDial(func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", origin.Listener.Addr().String())
	})
	listener, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(f, err)
	p := serve(f, server, listener)

	f.Fuzz(func(t *testing.T, input []byte) {
		c := dialRaw(t, p.address)
		if _, err := c.Write(input); err == nil {
			_ = c.CloseWrite() // the proxy may have cut the connection by now
		}
		answer, err := c.rest()
		require.True(t, err == nil || errors.Is(err, syscall.ECONNRESET), "read: %v", err)
		require.True(t, answer == "" || strings.HasPrefix(answer, "HTTP/1."), "%q", answer)

		alive := dialRaw(t, p.address)
		alive.say("GET /healthz HTTP/1.0\r\n\r\n")
		_, body := alive.response(http.MethodGet)
		require.Equal(t, "ok", body)
	})
}
