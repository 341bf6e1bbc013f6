// SPDX-License-Identifier: Apache-2.0

// Package forwardproxy is the HTTP forward proxy that the operator's own image
// plays as a subcommand. It carries HTTP/1.1 requests in absolute form and
// CONNECT tunnels, changes nothing that it carries, and tells the origin nothing
// about the client.
//
// It is built on net/http and httputil.ReverseProxy. elazarl/goproxy was tried
// and left: it ends a chunked response cleanly when the origin broke it off, so a
// crawler takes half a page for a whole one; it passes hop-by-hop headers on; and
// its tunnels run in goroutines that a shutdown can't wait for.
package forwardproxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"time"

	"k8s.io/utils/clock"
)

const (
	// maxHeaderBytes bounds a request's header; common servers take 8 to 64 KiB.
	maxHeaderBytes = 64 << 10
	// defaultMaxConnections keeps client and origin sockets within the usual
	// limit of open files.
	defaultMaxConnections = 1024
)

// Config says how a Server behaves. The zero value is an open proxy with the
// default limits.
type Config struct {
	// Username and Password are what clients must send by Basic authentication.
	// Both empty: no authentication.
	Username, Password string
	// EgressBind is the source address of connections to IPv4 loopback targets,
	// so that an origin on this machine can tell proxies apart. It must be in
	// 127/8 or unset. Connections to the world are never bound to it: a socket
	// bound to 127/8 can't leave the machine.
	EgressBind netip.Addr
	// DenyLocal refuses to connect to the machine itself, its link, multicast, and
	// the metadata services of clouds.
	DenyLocal bool
	// MaxConnections bounds concurrent client connections; beyond it requests
	// are answered 503. 0 means 1024.
	MaxConnections int
	// Timeouts bound every wait.
	Timeouts Timeouts
	// Resolver looks up origins; nil is the machine's own.
	Resolver *net.Resolver
	// RootCAs verify origins of absolute-form https requests; nil is the
	// machine's own set. Tunnels are never looked into.
	RootCAs *x509.CertPool
	// Log receives one line per failure at debug level; nil discards. Neither
	// credentials nor URLs are logged, only hosts.
	Log *slog.Logger
	// Clock drives Idle and Grace; nil is the real clock.
	Clock clock.WithTicker
}

// Timeouts bound every wait of a Server. A zero field means its default.
type Timeouts struct {
	// Header: a request's header, from its first byte to its last (10 s).
	Header time.Duration
	// KeepAlive: a client connection between two requests (2 min).
	KeepAlive time.Duration
	// Dial: resolving and connecting to an origin (10 s).
	Dial time.Duration
	// Response: from the end of a request to the header of its response (5 min).
	Response time.Duration
	// Idle: a client connection on which not one byte moves, be it a tunnel, an
	// upload or a download (15 min).
	Idle time.Duration
	// Grace: what runs when the server is told to stop (5 s).
	Grace time.Duration
}

// Server is a forward proxy. Make it with New.
type Server struct {
	log         *slog.Logger
	clock       clock.WithTicker
	timeouts    Timeouts
	credentials credentials
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	transport   *http.Transport
	forward     *httputil.ReverseProxy
	clients     *clients
}

// New checks the configuration and makes a Server.
func New(cfg Config) (*Server, error) {
	if b := cfg.EgressBind; b.IsValid() && (!b.Is4() || !b.IsLoopback()) {
		return nil, fmt.Errorf("egress bind address %s: must be an address in 127.0.0.0/8", b)
	}
	credentials, err := newCredentials(cfg.Username, cfg.Password)
	if err != nil {
		return nil, err
	}
	cfg = withDefaults(cfg)
	s := &Server{
		log:         cfg.Log,
		clock:       cfg.Clock,
		timeouts:    cfg.Timeouts,
		credentials: credentials,
		dial:        newDialer(cfg).DialContext,
		clients:     newClients(cfg.Clock, cfg.MaxConnections),
	}
	s.transport = s.newTransport(cfg)
	s.forward = s.newForwarder()
	return s, nil
}

// Serve carries traffic of listener until ctx ends, then stops accepting, closes
// what is idle, gives running requests and tunnels the grace, closes the rest and
// returns nil. It returns early, with an error, only if the listener breaks. It
// closes listener, leaves no goroutine behind, and can be called once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	// Requests must outlive ctx by the grace.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := s.newHTTPServer(base)

	watch := make(chan struct{})
	go func() {
		defer close(watch)
		s.closeIdleUntilDone(base)
	}()
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.clients.limit(ctx, listener)) }()

	var err error
	select {
	case err = <-served:
		served <- nil
	case <-ctx.Done():
	}
	s.drain(base, cancel, server, served)
	<-watch
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}

func (s *Server) newHTTPServer(base context.Context) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      http.HandlerFunc(s.handle),
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext:                  withClient,
		ReadHeaderTimeout:            s.timeouts.Header,
		IdleTimeout:                  s.timeouts.KeepAlive,
		MaxHeaderBytes:               maxHeaderBytes,
		Protocols:                    &protocols,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// drain ends all traffic: politely within the grace, then not. base is the
// parent of every request's context and cancel ends it; served yields a value once
// the accept loop has returned.
func (s *Server) drain(base context.Context, cancel context.CancelFunc, server *http.Server, served <-chan error) {
	grace, stop := s.graceContext(base)
	defer stop()
	err := server.Shutdown(grace)
	if err == nil {
		// Shutdown doesn't know of hijacked connections, the tunnels.
		err = s.clients.waitHandlers(grace)
	}
	if err != nil {
		s.log.Debug("grace is over, closing the rest", "error", err)
	}
	// Past this no connection is accepted that the calls below wouldn't see.
	<-served
	cancel()
	s.clients.closeAll()
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Debug("close server", "error", err)
	}
	s.clients.handlers.Wait()
	s.transport.CloseIdleConnections()
}

// graceContext ends when the grace is over by the injected clock.
func (s *Server) graceContext(parent context.Context) (context.Context, context.CancelFunc) {
	grace, cancel := context.WithCancel(parent)
	timer := s.clock.NewTimer(s.timeouts.Grace)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel()
		case <-grace.Done():
		}
	}()
	return grace, cancel
}

// closeIdleUntilDone is the one guard against every kind of stall after a
// header: net/http's own deadlines know nothing of tunnels and would cut long
// transfers.
func (s *Server) closeIdleUntilDone(ctx context.Context) {
	ticker := s.clock.NewTicker(s.timeouts.Idle / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			if n := s.clients.closeIdle(s.timeouts.Idle); n > 0 {
				s.log.Debug("closed idle connections", "count", n)
			}
		case <-ctx.Done():
			return
		}
	}
}

func withDefaults(cfg Config) Config {
	t := &cfg.Timeouts
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Header, 10 * time.Second},
		{&t.KeepAlive, 2 * time.Minute},
		{&t.Dial, 10 * time.Second},
		{&t.Response, 5 * time.Minute},
		{&t.Idle, 15 * time.Minute},
		{&t.Grace, 5 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if cfg.MaxConnections <= 0 {
		cfg.MaxConnections = defaultMaxConnections
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return cfg
}
