// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"context"
	"net"
)

// BindsFor is bindsFor for tests.
func BindsFor(address string) bool { return bindsFor(address) }

// Classify gives status and RFC 9209 error of an error.
func Classify(err error) (status int, kind string) {
	f := classify(err)
	return f.status, f.kind
}

// SetDial replaces the way out, so that fuzzing stays on the machine.
func (s *Server) SetDial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	s.dial = dial
}

// OpenConnections counts client connections.
func (s *Server) OpenConnections() int {
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	return len(s.clients.open)
}
