// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

// Values of Options.EgressBind that aren't an address.
const (
	EgressBindAuto = "auto"
	EgressBindOff  = "off"
)

// Values of Options.LogFormat.
const (
	LogJSON    = "json"
	LogConsole = "console"
)

// Options are the subcommand's flags, one to one.
type Options struct {
	// Listen is the HOST:PORT to listen on. Port 0 takes a free one, which
	// ReadyFile tells.
	Listen string
	// AuthDir is a folder with the files username and password (see
	// LoadCredentials), read once: a rotation replaces the instance. Empty: no
	// authentication.
	AuthDir string
	// EgressBind is "auto" (the default: the listen address if it is in 127/8),
	// "off", or an address in 127/8; see Config.EgressBind.
	EgressBind string
	// DenyLocal is Config.DenyLocal.
	DenyLocal bool
	// LogFormat is "json" (the default) or "console".
	LogFormat string
	// Verbose logs failed requests too, with their hosts.
	Verbose bool
	// ReadyFile is written, all at once, when the proxy listens (see Ready), again
	// when it is lost or changed, and removed at a graceful end. Empty: none.
	ReadyFile string
	// LockFile is locked before anything else and for the life of the process;
	// processlock.Holder tells who holds it. The process ends when the path doesn't
	// lead to the locked file any more: nobody would find it to stop it. Empty: none.
	LockFile string
	// MaxConnections is Config.MaxConnections.
	MaxConnections int
	// IdleTimeout and ShutdownGrace are Timeouts.Idle and Timeouts.Grace.
	IdleTimeout, ShutdownGrace time.Duration
	// LogOutput receives the log; nil is standard error.
	LogOutput io.Writer
	// Clock is Config.Clock and paces the looks at both files.
	Clock clock.WithTicker
}

// Ready is the JSON content of a ReadyFile. It is true only while the LockFile
// is held by PID.
type Ready struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
	PID     int    `json:"pid"`
}

// Run is the subcommand: it serves until ctx ends and then stops gracefully. The
// error wraps ErrAddressInUse if the port is taken, *processlock.HeldError if
// another process holds LockFile, and ErrLockLost if LockFile was taken away.
func Run(ctx context.Context, o Options) (err error) {
	log, err := newLog(o)
	if err != nil {
		return err
	}
	var lock *processlock.Lock
	if o.LockFile != "" {
		if lock, err = processlock.Acquire(o.LockFile); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	cfg, err := o.config(log)
	if err != nil {
		return err
	}
	listener, err := Listen(ctx, o.Listen)
	if err != nil {
		return err
	}
	address, err := listenAddress(listener)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if o.EgressBind == EgressBindAuto || o.EgressBind == "" {
		cfg.EgressBind = autoBind(address.Addr())
	}
	server, err := New(cfg)
	var own *files
	if err == nil {
		own, err = newFiles(o, lock, address, server)
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	announce(log, address, cfg)
	// The lock's release is deferred above, so the ready file is gone before another
	// process can take the lock and write its own.
	return own.keepDuring(ctx, func(ctx context.Context) error { return server.Serve(ctx, listener) })
}

func (o Options) config(log *slog.Logger) (Config, error) {
	cfg := Config{
		DenyLocal:      o.DenyLocal,
		MaxConnections: o.MaxConnections,
		Timeouts:       Timeouts{Idle: o.IdleTimeout, Grace: o.ShutdownGrace},
		Log:            log,
		Clock:          o.Clock,
	}
	var err error
	switch o.EgressBind {
	case "", EgressBindAuto, EgressBindOff:
	default:
		if cfg.EgressBind, err = netip.ParseAddr(o.EgressBind); err != nil {
			return Config{}, fmt.Errorf("egress bind %q: write auto, off or an address in 127.0.0.0/8", o.EgressBind)
		}
	}
	if o.AuthDir != "" {
		if cfg.Username, cfg.Password, err = LoadCredentials(o.AuthDir); err != nil {
			return Config{}, err
		}
	}
	return cfg, nil
}

func newLog(o Options) (*slog.Logger, error) {
	var out io.Writer = os.Stderr
	if o.LogOutput != nil {
		out = o.LogOutput
	}
	handlerOptions := &slog.HandlerOptions{}
	if o.Verbose {
		handlerOptions.Level = slog.LevelDebug
	}
	switch o.LogFormat {
	case "", LogJSON:
		return slog.New(slog.NewJSONHandler(out, handlerOptions)), nil
	case LogConsole:
		return slog.New(slog.NewTextHandler(out, handlerOptions)), nil
	default:
		return nil, fmt.Errorf("log format %q: write json or console", o.LogFormat)
	}
}

func announce(log *slog.Logger, address netip.AddrPort, cfg Config) {
	authenticated := cfg.Username != ""
	log.Info("forward proxy is listening", "address", address.String(), "authentication", authenticated, "egressBind", cfg.EgressBind.String())
	if !authenticated && !address.Addr().IsLoopback() {
		log.Warn("no authentication: whoever reaches this address can use the proxy", "address", address.String())
	}
}

func listenAddress(listener net.Listener) (netip.AddrPort, error) {
	address, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read listen address: %w", err)
	}
	return netip.AddrPortFrom(address.Addr().Unmap(), address.Port()), nil
}

func autoBind(listen netip.Addr) netip.Addr {
	if listen.Is4() && listen.IsLoopback() {
		return listen
	}
	return netip.Addr{}
}
