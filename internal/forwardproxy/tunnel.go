// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// halfCloser is a connection of which one direction can end before the other.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// serveTunnel carries one CONNECT tunnel until both directions have ended.
func (s *Server) serveTunnel(w http.ResponseWriter, r *http.Request) {
	target, err := tunnelTarget(r)
	if err != nil {
		s.refuse(w, r, badRequest(err))
		return
	}
	upstream, err := s.dialOrigin(r.Context(), "tcp", target)
	if err != nil {
		s.fail(w, r, target, err)
		return
	}
	defer closeQuietly(upstream)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.log.Debug("hijack client connection", "error", err)
		return
	}
	defer closeQuietly(conn)
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return // the client has gone
	}
	client, clientOK := conn.(halfCloser)
	origin, originOK := upstream.(halfCloser)
	if clientOK && originOK {
		relay(client, origin)
	}
}

// closeQuietly closes a connection whose two directions have ended.
func closeQuietly(conn net.Conn) { _ = conn.Close() }

// tunnelTarget returns the host:port that a CONNECT names.
func tunnelTarget(r *http.Request) (string, error) {
	if r.ContentLength != 0 {
		// What follows the header is the tunnel's; a length would make it
		// ambiguous.
		return "", errors.New("a CONNECT has no body")
	}
	host, port, err := net.SplitHostPort(r.URL.Host)
	if err != nil || host == "" {
		return "", fmt.Errorf("CONNECT needs HOST:PORT, got %q", r.URL.Host)
	}
	if err := checkPort(port); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

// relay copies both directions and returns when both have ended. The end of one
// is passed on as a half-close, a break as a reset.
func relay(client, origin halfCloser) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pipe(origin, client)
	}()
	pipe(client, origin)
	<-done
}

func pipe(dst, src halfCloser) {
	_, err := io.Copy(dst, src)
	if err == nil {
		err = dst.CloseWrite()
	}
	if err != nil {
		abort(dst)
		abort(src)
	}
}

// abort resets a connection, so that its peer can't take a break for an end.
func abort(conn net.Conn) {
	if l, ok := conn.(interface{ SetLinger(int) error }); ok {
		// It fails only on a connection that is closed already.
		_ = l.SetLinger(0)
	}
	_ = conn.Close()
}
