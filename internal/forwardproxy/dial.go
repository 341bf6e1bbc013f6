// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrAddressInUse is wrapped by Listen and Run when another process has the
// address and port.
var ErrAddressInUse = errors.New("address and port are in use by another process")

// Listen opens the TCP listener of a proxy. The error wraps ErrAddressInUse if
// the port is taken, and syscall.EADDRNOTAVAIL if the address isn't this
// machine's.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive()}
	listener, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w", address, ErrAddressInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// keepAlive finds a peer that vanished within about a minute.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}
}

// newDialer connects to origins: all addresses of a name, IPv6 and IPv4 raced.
func newDialer(cfg Config) *net.Dialer {
	return &net.Dialer{
		Timeout:         cfg.Timeouts.Dial,
		KeepAliveConfig: keepAlive(),
		Resolver:        cfg.Resolver,
		ControlContext:  control(cfg),
	}
}

// dialOrigin is the only way out.
func (s *Server) dialOrigin(ctx context.Context, network, address string) (net.Conn, error) {
	return s.dial(ctx, network, address)
}

// control looks at an address when it is resolved, just before a socket connects,
// so that no name leads around it. The resolver's own sockets are none of these.
func control(cfg Config) func(context.Context, string, string, syscall.RawConn) error {
	bind := bindControl(cfg.EgressBind)
	if !cfg.DenyLocal {
		return bind
	}
	return func(ctx context.Context, network, address string, raw syscall.RawConn) error {
		if isLocal(address) {
			return errDenied
		}
		if bind == nil {
			return nil
		}
		return bind(ctx, network, address, raw)
	}
}

// bindControl binds a socket just before it connects, when the address is
// resolved. Dialer.LocalAddr would bind before that is known, and would rule out
// the other family.
func bindControl(bind netip.Addr) func(context.Context, string, string, syscall.RawConn) error {
	if !bind.IsValid() {
		return nil
	}
	return func(_ context.Context, _, address string, raw syscall.RawConn) error {
		if !bindsFor(address) {
			return nil
		}
		var bindErr error
		err := raw.Control(func(fd uintptr) { bindErr = bindLater(int(fd), bind) })
		if err = errors.Join(err, bindErr); err != nil {
			return fmt.Errorf("bind to %s: %w", bind, err)
		}
		return nil
	}
}

// bindsFor tells whether a resolved address can be reached from 127/8.
func bindsFor(address string) bool {
	target, err := netip.ParseAddrPort(address)
	return err == nil && target.Addr().Is4() && target.Addr().IsLoopback()
}

func bindSocket(fd int, addr netip.Addr) error {
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.As4()})
}
