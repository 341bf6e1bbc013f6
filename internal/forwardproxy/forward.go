// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"
)

const (
	copyBufferBytes        = 32 << 10
	maxResponseHeaderBytes = 1 << 20
	maxIdleOrigins         = 256
	maxIdlePerOrigin       = 32
	idleOriginTimeout      = time.Minute
	tlsHandshakeTimeout    = 10 * time.Second
	// continueTimeout is how long an origin may think about Expect:
	// 100-continue; most of those that don't know it say nothing at all.
	continueTimeout = time.Second
)

// newTransport speaks to origins. It follows no redirect, caches nothing, leaves
// compression alone and takes no proxy from the environment.
func (s *Server) newTransport(cfg Config) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            s.dialOrigin,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.RootCAs},
		TLSHandshakeTimeout:    tlsHandshakeTimeout,
		DisableCompression:     true,
		MaxIdleConns:           maxIdleOrigins,
		MaxIdleConnsPerHost:    maxIdlePerOrigin,
		IdleConnTimeout:        idleOriginTimeout,
		ResponseHeaderTimeout:  cfg.Timeouts.Response,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		Protocols:              &protocols,
	}
}

// newForwarder carries absolute-form requests. ReverseProxy removes hop-by-hop
// headers in both directions, streams, passes on trailers, 1xx answers and
// upgrades, and breaks off towards the client what the origin broke off.
func (s *Server) newForwarder() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     s.transport,
		Rewrite:       rewrite,
		FlushInterval: -1,
		BufferPool:    &bufferPool{},
		ErrorLog:      slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.fail(w, r, r.URL.Host, err)
		},
	}
}

// serveForward carries one absolute-form request.
func (s *Server) serveForward(w http.ResponseWriter, r *http.Request) {
	if err := checkTarget(r); err != nil {
		s.refuse(w, r, badRequest(err))
		return
	}
	forward := *s.forward
	forward.ModifyResponse = func(res *http.Response) error {
		keepAbsent(w.Header(), res.Header, "Content-Type", "Date")
		return checkUpgrade(r, res)
	}
	forward.ServeHTTP(w, r)
}

// checkTarget tells what is wrong with an absolute-form target, if anything.
func checkTarget(r *http.Request) error {
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return fmt.Errorf("scheme %q is not http or https", r.URL.Scheme)
	}
	if r.URL.Hostname() == "" {
		return errors.New("the URL names no host")
	}
	if port := r.URL.Port(); port != "" {
		return checkPort(port)
	}
	return nil
}

// rewrite undoes what ReverseProxy does for servers that stand before their own
// backends: here headers and query are the client's business.
func rewrite(p *httputil.ProxyRequest) {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := p.In.Header[name]; ok {
			p.Out.Header[name] = values
		}
	}
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.URL.Opaque = verbatimPath(p.In)
	if p.Out.Body != nil {
		p.Out.Body = &requestBody{ReadCloser: p.Out.Body, in: p.In, trailer: p.Out.Trailer}
	}
}

// verbatimPath returns the path as the client wrote it where net/url would
// escape it differently ("/a|b"), since origins sign URLs byte by byte. Empty
// means that net/url's own form is right.
func verbatimPath(r *http.Request) string {
	_, rest, _ := strings.Cut(r.RequestURI, "://")
	start := strings.IndexAny(rest, "/?#")
	if start < 0 {
		if r.Method == http.MethodOptions {
			return "*" // RFC 9112 3.2.4
		}
		return ""
	}
	path, _, _ := strings.Cut(rest[start:], "?")
	// net/url would take "//x" for an authority.
	if path == r.URL.EscapedPath() || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		return ""
	}
	return path
}

// keepAbsent stops net/http from making up headers that the origin didn't send.
func keepAbsent(own, origin http.Header, names ...string) {
	for _, name := range names {
		if _, ok := origin[name]; !ok {
			own[name] = nil
		}
	}
}

// checkUpgrade refuses a 101 that nobody asked for, whose connection
// ReverseProxy would leak, and cleans one that is right of headers that it would
// pass on (golang/go#80875).
func checkUpgrade(r *http.Request, res *http.Response) error {
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	if got, want := res.Header.Get("Upgrade"), r.Header.Get("Upgrade"); !strings.EqualFold(got, want) {
		return fmt.Errorf("origin switched to protocol %q, asked for was %q", got, want)
	}
	for _, name := range []string{"Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding"} {
		res.Header.Del(name)
	}
	return nil
}

// requestBody marks errors of the client's body, so that they aren't taken for
// the origin's, and brings the trailers over, which net/http fills in only in the
// inbound request, when its body ends.
type requestBody struct {
	io.ReadCloser
	in      *http.Request
	trailer http.Header
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if b.trailer != nil {
			maps.Copy(b.trailer, b.in.Trailer)
		}
	default:
		err = &requestBodyError{err: err}
	}
	return n, err
}

type requestBodyError struct{ err error }

func (e *requestBodyError) Error() string { return "read request body: " + e.err.Error() }
func (e *requestBodyError) Unwrap() error { return e.err }

// bufferPool implements httputil.BufferPool.
type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, copyBufferBytes)
}

func (b *bufferPool) Put(buf []byte) { b.pool.Put(&buf) }
