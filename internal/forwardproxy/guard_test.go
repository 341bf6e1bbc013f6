// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

func TestARequestThatCouldHideAnotherIsTheLastOfItsConnection(t *testing.T) {
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	cases := map[string]struct{ why, head, body string }{
		"Content-Length and Transfer-Encoding": {"RFC 9112 6.1", "HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"},
		"the other way round":                  {"RFC 9112 6.1", "HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"},
		"Transfer-Encoding of HTTP/1.0":        {"RFC 9112 6.1", "HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n", ""},
		"HTTP/1.0":                             {"RFC 9112 9.3", "HTTP/1.0\r\nConnection: keep-alive\r\n", ""},
	}
	for name, tc := range cases {
		for _, path := range []string{"/", "/refused"} {
			t.Run(name+" to "+path, func(t *testing.T) {
				requests := make(chan string, 2)
				origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
					requests <- r.URL.Path
					_, _ = io.WriteString(w, "hello")
				})
				p := startProxy(t, forwardproxy.Config{})
				target := origin.URL + "/"
				if path == "/refused" {
					target = "ftp://" + origin.Listener.Addr().String() + "/"
				}
				c := dialRaw(t, p.address)
				c.say("POST " + target + " " + tc.head + "\r\n" + tc.body + "GET " + origin.URL + smuggled[len("GET "):])
				res, _ := c.response(http.MethodPost)
				require.True(t, res.Close, tc.why)
				rest, _ := c.rest()
				require.Empty(t, rest, "nothing after it is answered")
				require.LessOrEqual(t, len(requests), 1)
			})
		}
	}
}

func TestSilentConnectionsMakeRoomForClients(t *testing.T) {
	origin := startOrigin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	echo := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) { _, _ = io.Copy(conn, reader) })
	const limit = 4
	p := startProxy(t, forwardproxy.Config{
		Username: "alice", Password: "s3cret", MaxConnections: limit,
		Timeouts: forwardproxy.Timeouts{Header: time.Hour},
	})
	login := "Proxy-Authorization: " + basic("alice:s3cret") + "\r\n"
	tunnel := dialRaw(t, p.address)
	tunnel.say("CONNECT " + echo + " HTTP/1.1\r\nHost: x\r\n" + login + "\r\n")
	res, _ := tunnel.response(http.MethodConnect)
	require.Equal(t, http.StatusOK, res.StatusCode)
	denied := dialRaw(t, p.address)
	denied.say("GET " + origin.URL + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
	res, _ = denied.response(http.MethodGet)
	require.Equal(t, http.StatusProxyAuthRequired, res.StatusCode)
	var silent []*rawConn
	for range 200 { // far more than the limit and its headroom
		silent = append(silent, dialRaw(t, p.address))
	}
	client := dialRaw(t, p.address)
	client.say("GET " + origin.URL + "/ HTTP/1.1\r\nHost: x\r\n" + login + "\r\n")
	res, body := client.response(http.MethodGet)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "hello", body)
	for _, c := range append(silent[:190:190], denied) {
		_, err := c.rest()
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it has made room")
	}
	tunnel.say("still here")
	tunnel.hear("still here")
	require.LessOrEqual(t, p.OpenConnections(), limit)
}
