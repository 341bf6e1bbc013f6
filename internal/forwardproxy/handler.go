// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// realm is shown by clients that ask a person for the credentials.
const realm = `Basic realm="proxy-operator"`

// handle answers one request of a client.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if !s.clients.begin() {
		s.refuse(w, r, shuttingDown())
		return
	}
	defer s.clients.handlers.Done()
	w = &clientWriter{ResponseWriter: w, last: isLast(r)}
	switch isConnect := r.Method == http.MethodConnect; {
	case !isConnect && !r.URL.IsAbs():
		s.serveOwn(w, r)
	case isExcess(r.Context()):
		s.refuse(w, r, overloaded())
	case !s.credentials.allow(r.Header):
		w.Header().Set("Proxy-Authenticate", realm)
		s.refuse(w, r, unauthenticated())
	case isConnect:
		prove(r.Context())
		s.serveTunnel(w, r)
	default:
		prove(r.Context())
		s.serveForward(w, r)
	}
}

// isLast tells whether the connection ends with the answer. A request with both
// Transfer-Encoding and Content-Length must be its connection's last (RFC 9112
// 6.1), since what follows could be smuggled; net/http drops the length before
// anybody sees it, so every chunked request is. HTTP/1.0 clients don't get
// persistent connections from a proxy (RFC 9112 9.3), and net/http drops the
// Transfer-Encoding of theirs.
func isLast(r *http.Request) bool {
	return len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1)
}

// serveOwn answers requests that are meant for the proxy itself.
func (s *Server) serveOwn(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "ok")
		return
	}
	address := "HOST:PORT"
	// The Host header would do as well but is the client's to choose.
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		address = local.String()
	}
	login := ""
	if s.credentials.required {
		login = "USER:PASSWORD@"
	}
	s.refuse(w, r, failure{
		status: http.StatusBadRequest,
		kind:   kindRequestError,
		text:   fmt.Sprintf("this is a forward proxy, not a web server; use it like this: curl -x http://%s%s http://example.com/", login, address),
	})
}

// checkPort tells what is wrong with an origin's port, if anything.
func checkPort(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return nil
}

// clientWriter hands out a hijacked connection that first yields what net/http
// has read beyond the header. ReverseProxy would lose it (golang/go#80875), and a
// client may send a TLS hello or a first frame along with its request.
type clientWriter struct {
	http.ResponseWriter
	last bool // the connection ends with this answer
}

// WriteHeader leaves 100 to net/http, which sends it when the body is first read:
// that is when the origin has asked for it, and a second one would be too many.
func (w *clientWriter) WriteHeader(code int) {
	if code == http.StatusContinue {
		return
	}
	if w.last && code >= http.StatusOK {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController find the methods below.
func (w *clientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w *clientWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := rw.Peek(rw.Reader.Buffered())
	if err != nil {
		return nil, nil, err
	}
	client, ok := conn.(*clientConn)
	if !ok {
		return nil, nil, fmt.Errorf("hijack: unexpected connection type %T", conn)
	}
	return &replayConn{
		clientConn: client,
		reader:     io.MultiReader(bytes.NewReader(bytes.Clone(early)), client),
	}, rw, nil
}

type replayConn struct {
	*clientConn
	reader io.Reader
}

func (c *replayConn) Read(p []byte) (int, error) { return c.reader.Read(p) }
