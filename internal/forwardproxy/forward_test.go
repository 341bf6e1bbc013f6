// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

const plainAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"

func TestRequestReachesTheOriginAsTheClientWroteIt(t *testing.T) {
	p := startProxy(t, forwardproxy.Config{})
	cases := map[string]struct {
		why       string
		send      string // %s is the origin's host:port
		wantLine  string
		wantHas   []string
		wantHasnt []string
	}{
		"the path keeps its bytes": {
			why:      "signed URLs are compared byte by byte",
			send:     "GET http://%s/a|b%%2Fc/%%e4?x=1;y=%%zz&&z HTTP/1.1\r\nHost: other\r\n\r\n",
			wantLine: "GET /a|b%2Fc/%e4?x=1;y=%zz&&z HTTP/1.1",
		},
		"a path of two slashes stays a path": {
			why:      "net/url takes a leading // for an authority",
			send:     "GET http://%s//x|y HTTP/1.1\r\nHost: h\r\n\r\n",
			wantLine: "GET //x%7Cy HTTP/1.1",
		},
		"an empty path becomes a slash": {
			send: "GET http://%s?q HTTP/1.1\r\nHost: h\r\n\r\n", why: "origin form needs one", wantLine: "GET /?q HTTP/1.1",
		},
		"OPTIONS without a path becomes a star": {
			send: "OPTIONS http://%s HTTP/1.1\r\nHost: h\r\n\r\n", why: "RFC 9112 3.2.4", wantLine: "OPTIONS * HTTP/1.1",
		},
		"nothing about the client is added": {
			why:       "the proxy is elite by default, and compression is the client's choice",
			send:      "GET http://%s/ HTTP/1.1\r\nHost: h\r\n\r\n",
			wantLine:  "GET / HTTP/1.1",
			wantHasnt: []string{"forwarded", "via:", "user-agent", "accept-encoding", "connection:"},
		},
		"the client's own headers stay": {
			why: "a user who sends X-Forwarded-For means it",
			send: "GET http://%s/ HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.7\r\nVia: 1.1 mine\r\n" +
				"Accept-Encoding: br\r\nUser-Agent: crawler\r\nCookie: a=b\r\n\r\n",
			wantLine: "GET / HTTP/1.1",
			wantHas:  []string{"x-forwarded-for: 192.0.2.7\r\n", "via: 1.1 mine\r\n", "accept-encoding: br\r\n", "user-agent: crawler\r\n", "cookie: a=b\r\n"},
		},
		"hop-by-hop headers and credentials end at the proxy": {
			why: "they speak of this connection only",
			send: "GET http://%s/ HTTP/1.1\r\nHost: h\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n" +
				"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic Og==\r\nTE: gzip\r\n\r\n",
			wantLine:  "GET / HTTP/1.1",
			wantHasnt: []string{"x-mine", "keep-alive", "proxy-", "te:"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			origin, seen := answering(t, plainAnswer)
			c := dialRaw(t, p.address)
			c.say(fmt.Sprintf(tc.send, origin))
			head := receive(t, seen)
			res, body := c.response(http.MethodGet)
			require.Equal(t, 200, res.StatusCode)
			require.Equal(t, "hi", body)

			line, headers, _ := strings.Cut(head, "\r\n")
			require.Equal(t, tc.wantLine, line, tc.why)
			headers = strings.ToLower(headers)
			require.Contains(t, headers, "host: "+origin+"\r\n", "the URL's host wins")
			for _, want := range tc.wantHas {
				require.Contains(t, headers, want, tc.why)
			}
			for _, unwanted := range tc.wantHasnt {
				require.NotContains(t, headers, unwanted, tc.why)
			}
		})
	}
}

func TestAnswerReachesTheClientAsTheOriginWroteIt(t *testing.T) {
	p := startProxy(t, forwardproxy.Config{})
	cases := map[string]struct {
		why, method, answer, wantBody string
		want                          http.Header
		wantLength                    int64
	}{
		"no header is made up": {
			why: "net/http would guess a Content-Type and add a Date", method: "GET", answer: plainAnswer,
			wantBody: "hi", wantLength: 2, want: http.Header{"Content-Length": {"2"}},
		},
		"hop-by-hop headers end at the proxy": {
			why: "they speak of the origin's connection", method: "GET",
			answer: "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nProxy-Authenticate: Basic\r\n" +
				"X-Kept: a\r\nX-Kept: b\r\nContent-Length: 0\r\n\r\n",
			want: http.Header{"X-Kept": {"a", "b"}, "Content-Length": {"0"}},
		},
		"HEAD keeps the length of what it doesn't carry": {
			why: "that is what HEAD is for", method: "HEAD", answer: "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n",
			want: http.Header{"Content-Length": {"12345"}}, wantLength: 12345,
		},
		"304 has no body": {
			why: "nothing may be cached or completed here", method: "GET", answer: "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\n\r\n",
			want: http.Header{"Etag": {`"x"`}},
		},
		"redirects are the client's business": {
			why: "a crawler wants to see them", method: "GET",
			answer: "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.invalid/\r\nContent-Length: 0\r\n\r\n",
			want:   http.Header{"Location": {"http://elsewhere.invalid/"}, "Content-Length": {"0"}},
		},
		"a body that ends with the connection is whole": {
			why: "HTTP/1.0 origins have no other way", method: "GET", answer: "HTTP/1.0 200 OK\r\n\r\nall of it",
			wantBody: "all of it", wantLength: -1, want: http.Header{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			origin, _ := answering(t, tc.answer)
			c := dialRaw(t, p.address)
			c.say(tc.method + " http://" + origin + "/ HTTP/1.1\r\nHost: h\r\n\r\n")
			res, body := c.response(tc.method)
			require.Equal(t, tc.wantBody, body, tc.why)
			require.Equal(t, tc.wantLength, res.ContentLength, tc.why)
			require.Equal(t, tc.want, res.Header, tc.why)
		})
	}
}

func TestCompressedBodyIsUntouched(t *testing.T) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, err := io.WriteString(zip, strings.Repeat("page ", 1000))
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	origin := startOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	})
	p := startProxy(t, forwardproxy.Config{})
	res, body := get(t, p.client(t, nil, nil), origin.URL)
	require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
	require.Equal(t, packed.String(), body)
}

func TestChunkedBodiesAndTrailersPassInBothDirections(t *testing.T) {
	origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		n, _ := io.Copy(w, r.Body)
		w.Header().Set("X-Announced", fmt.Sprintf("%d bytes, trailer %q, length %d", n, r.Trailer.Get("X-Sum"), r.ContentLength))
		w.Header().Set(http.TrailerPrefix+"X-Late", "too")
	})
	p := startProxy(t, forwardproxy.Config{})
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, origin.URL,
		io.MultiReader(strings.NewReader("one "), strings.NewReader("two")))
	require.NoError(t, err)
	req.Trailer = http.Header{"X-Sum": {"abc"}}
	res, body := do(t, p.client(t, nil, nil), req)
	require.Equal(t, "one two", body)
	require.Equal(t, http.Header{"X-Announced": {`7 bytes, trailer "abc", length -1`}, "X-Late": {"too"}}, res.Trailer)
}

func TestOriginDecidesOnExpectContinue(t *testing.T) {
	origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	p := startProxy(t, forwardproxy.Config{})
	send := func(path string) *rawConn {
		c := dialRaw(t, p.address)
		c.say("POST " + origin.URL + path + " HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
		return c
	}
	yes := send("/yes")
	yes.hear("HTTP/1.1 100 Continue\r\n\r\n")
	yes.say("body")
	_, body := yes.response(http.MethodPost)
	require.Equal(t, "body", body)

	res, _ := send("/no").response(http.MethodPost)
	require.Equal(t, http.StatusExpectationFailed, res.StatusCode, "no 100 was sent before")
}

func TestEarlyHintsPass(t *testing.T) {
	origin, _ := answering(t, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"+plainAnswer)
	p := startProxy(t, forwardproxy.Config{})
	c := dialRaw(t, p.address)
	c.say("GET http://" + origin + "/ HTTP/1.1\r\nHost: h\r\n\r\n")
	res, _ := c.response(http.MethodGet)
	require.Equal(t, http.StatusEarlyHints, res.StatusCode)
	require.Equal(t, "</a.css>", res.Header.Get("Link"))
	res, body := c.response(http.MethodGet)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Empty(t, res.Header.Get("Link"))
	require.Equal(t, "hi", body)
}

func TestHalfAPageIsNeverTakenForAWholeOne(t *testing.T) {
	cases := map[string]struct{ why, answer string }{
		"chunked":       {"a clean last chunk would hide the break", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},
		"with a length": {"the connection must end early too", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"},
	}
	p := startProxy(t, forwardproxy.Config{})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			origin, _ := answering(t, tc.answer)
			req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+origin, nil)
			require.NoError(t, err)
			res, err := p.client(t, nil, nil).Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, tc.why)
			require.Equal(t, "half", string(body))
			require.NoError(t, res.Body.Close())
		})
	}
}

func TestEventsArriveBeforeTheAnswerEnds(t *testing.T) {
	next := make(chan struct{})
	origin := startOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "after")
	})
	p := startProxy(t, forwardproxy.Config{})
	c := dialRaw(t, p.address)
	c.say("GET " + origin.URL + "/ HTTP/1.1\r\nHost: h\r\n\r\n")
	res, err := http.ReadResponse(c.reader, nil)
	require.NoError(t, err)
	buf := make([]byte, 5)
	_, err = io.ReadFull(res.Body, buf)
	require.NoError(t, err)
	require.Equal(t, "first", string(buf))
	close(next)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "after", string(rest))
	require.NoError(t, res.Body.Close())
}

func TestUpgradeCarriesFramesBothWays(t *testing.T) {
	origin := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) {
		if !strings.Contains(readHead(reader), "Upgrade: websocket\r\n") {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nKeep-Alive: 1\r\n\r\nhello")
		_, _ = io.Copy(conn, reader) // echoes until the client's half-close
		_, _ = io.WriteString(conn, "bye")
	})
	p := startProxy(t, forwardproxy.Config{})
	c := dialRaw(t, p.address)
	// The first frame comes along with the request.
	c.say("GET http://" + origin + "/ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly ")
	res, _ := c.response(http.MethodGet)
	require.Equal(t, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, res.Header)
	c.hear("hello")
	c.say("late")
	c.hear("early late")
	require.NoError(t, c.CloseWrite())
	rest, err := c.rest()
	require.NoError(t, err)
	require.Equal(t, "bye", rest)
}

func TestUnaskedUpgradeIsRefused(t *testing.T) {
	origin, _ := answering(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n")
	p := startProxy(t, forwardproxy.Config{})
	res, _ := get(t, p.client(t, nil, nil), "http://"+origin)
	require.Equal(t, http.StatusBadGateway, res.StatusCode)
	require.Equal(t, "proxy-operator; error=http_protocol_error", res.Header.Get("Proxy-Status"))
}

func TestAbsoluteFormHTTPSIsVerified(t *testing.T) {
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	t.Cleanup(origin.Close)
	cases := map[string]struct {
		why        string
		cfg        forwardproxy.Config
		wantStatus int
		wantKind   string
	}{
		"a known authority":    {"some clients send https this way", forwardproxy.Config{RootCAs: rootsOf(origin)}, 200, ""},
		"an unknown authority": {"the client can't check, so the proxy must", forwardproxy.Config{}, 502, "proxy-operator; error=tls_certificate_error"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, tc.cfg)
			c := dialRaw(t, p.address)
			c.say("GET " + origin.URL + "/ HTTP/1.1\r\nHost: h\r\n\r\n")
			res, _ := c.response(http.MethodGet)
			require.Equal(t, tc.wantStatus, res.StatusCode, tc.why)
			require.Equal(t, tc.wantKind, res.Header.Get("Proxy-Status"), tc.why)
		})
	}
}

func TestOriginConnectionsAreReused(t *testing.T) {
	remotes := make(chan string, 10)
	origin := startOrigin(t, func(_ http.ResponseWriter, r *http.Request) { remotes <- r.RemoteAddr })
	p := startProxy(t, forwardproxy.Config{})
	c := dialRaw(t, p.address)
	for range 3 {
		c.say("GET " + origin.URL + "/ HTTP/1.1\r\nHost: h\r\nProxy-Connection: keep-alive\r\n\r\n")
		c.response(http.MethodGet)
	}
	first := receive(t, remotes)
	require.Equal(t, first, receive(t, remotes))
	require.Equal(t, first, receive(t, remotes))
}
