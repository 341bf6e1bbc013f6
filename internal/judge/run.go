// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/net/netutil"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

const (
	// A request is one short header and its answer one short body; who needs longer
	// only holds a connection.
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	idleTimeout    = 30 * time.Second
	maxHeaderBytes = 16 << 10
	maxConnections = 1024
	// shutdownGrace is how long running requests may go on after a signal.
	shutdownGrace = 5 * time.Second
)

// Options are the subcommand's flags, one to one.
type Options struct {
	// BindAddress is the HOST:PORT to listen on.
	BindAddress string
	// TLSCertPath is a folder with tls.crt and tls.key, read again when they change.
	// Empty: plain HTTP, by which alone a proxy can show what it adds.
	TLSCertPath string
	// LogOutput receives the log; nil is standard error.
	LogOutput io.Writer
	// Listening is called with the address when it is taken; nil is nothing.
	Listening func(net.Addr)
}

// Run is the subcommand: it serves until ctx ends, gives running requests 5 s and
// returns nil. The log tells of start and end only, never of clients.
func Run(ctx context.Context, o Options) error {
	if o.LogOutput == nil {
		o.LogOutput = os.Stderr
	}
	log := slog.New(slog.NewJSONHandler(o.LogOutput, nil))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := o.certificate()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.BindAddress)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.BindAddress, err)
	}
	address := listener.Addr()
	listener = netutil.LimitListener(listener, maxConnections)
	watched := make(chan error, 1)
	if watcher == nil {
		watched <- nil
	} else {
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate})
		go func() { watched <- watcher.Start(ctx) }()
	}
	log.Info("judge is listening", "address", address.String(), "tls", watcher != nil)
	if o.Listening != nil {
		o.Listening(address)
	}
	err = serve(ctx, listener)
	cancel()
	err = errors.Join(err, <-watched)
	log.Info("judge has ended")
	return err
}

func (o Options) certificate() (*certwatcher.CertWatcher, error) {
	if o.TLSCertPath == "" {
		return nil, nil //nolint:nilnil // none is wanted
	}
	watcher, err := certwatcher.New(filepath.Join(o.TLSCertPath, "tls.crt"), filepath.Join(o.TLSCertPath, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("read tls.crt and tls.key in %s: %w", o.TLSCertPath, err)
	}
	return watcher, nil
}

// serve answers until ctx ends.
func serve(ctx context.Context, listener net.Listener) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler:           Handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         &protocols,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // it names clients
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // the grace is over
	}
	<-served
	return nil
}
