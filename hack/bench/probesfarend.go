// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
	"github.com/proxy-operator/proxy-operator/internal/judge"
)

// asFarEnd is the first argument with which this program is the other side of the probes, so that what it spends isn't
// taken for the prober's.
const asFarEnd = "far-end"

// farEnd is that process. The exported fields are what it prints when it is up.
type farEnd struct {
	*child.Child `json:"-"`
	roots        *x509.CertPool

	Proxy, Hanging, Resetting int    // ports
	Judge                     string // URL
	PEM                       []byte // its certificate
}

func startFarEnd(ctx context.Context, dir string) (*farEnd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own binary: %w", err)
	}
	f := &farEnd{roots: x509.NewCertPool()}
	f.Child, err = child.Start(child.Command{Name: "the far end", Path: self, Args: []string{asFarEnd}, Log: filepath.Join(dir, "far-end.log")})
	if err != nil {
		return nil, err
	}
	for json.Unmarshal([]byte(f.LastLines(1)), f) != nil {
		if f.Ended() {
			return nil, f.How()
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			_ = f.Kill()
			return nil, fmt.Errorf("wait for the far end: %w", err)
		}
	}
	f.roots.AppendCertsFromPEM(f.PEM)
	return f, nil
}

// serveAsFarEnd serves until a signal comes, and returns the exit code.
func serveAsFarEnd() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serveFarEnd(ctx, os.Stdout); err != nil {
		progress("far end: %v", err)
		return 1
	}
	return 0
}

func serveFarEnd(ctx context.Context, out io.Writer) error {
	secure := httptest.NewTLSServer(judge.Handler())
	defer secure.Close()
	f := farEnd{Judge: secure.URL, PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})}
	proxy, err := forwardproxy.New(forwardproxy.Config{})
	if err != nil {
		return err
	}
	var listeners [3]net.Listener
	for i, port := range []*int{&f.Proxy, &f.Hanging, &f.Resetting} {
		if listeners[i], err = forwardproxy.Listen(ctx, net.JoinHostPort(loopback, "0")); err != nil {
			return err
		}
		defer func() { _ = listeners[i].Close() }()
		if address, ok := listeners[i].Addr().(*net.TCPAddr); ok {
			*port = address.Port
		}
	}
	go answer(listeners[1], func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	go answer(listeners[2], func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // so that closing resets
		}
	})
	if err := json.NewEncoder(out).Encode(f); err != nil {
		return fmt.Errorf("tell the addresses: %w", err)
	}
	return proxy.Serve(ctx, listeners[0])
}

// answer handles connections until the listener is closed.
func answer(listener net.Listener, handle func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			handle(conn)
		}()
	}
}
