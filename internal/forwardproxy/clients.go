// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// overloadHeadroom is how many connections beyond the limit are accepted to be
// told 503. Beyond that, accepting waits.
const overloadHeadroom = 64

// clients keeps every client connection, hijacked or not, and every running
// handler, so that a stop can wait for them and then end them.
type clients struct {
	clock clock.PassiveClock
	max   int
	slots chan struct{}

	mu       sync.Mutex
	open     map[*clientConn]struct{}
	within   int // open connections that aren't excess
	accepted uint64
	closing  bool
	handlers sync.WaitGroup
}

func newClients(c clock.PassiveClock, limit int) *clients {
	return &clients{
		clock: c,
		max:   limit,
		slots: make(chan struct{}, limit+overloadHeadroom),
		open:  map[*clientConn]struct{}{},
	}
}

// limit wraps a listener so that its connections are kept and counted.
func (c *clients) limit(ctx context.Context, inner net.Listener) net.Listener {
	return &limitedListener{Listener: inner, clients: c, stop: ctx.Done()}
}

// begin counts a handler in, or refuses since everything is being closed.
func (c *clients) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.handlers.Add(1)
	return true
}

// waitHandlers waits for running handlers. It may be called only when no new one
// can begin.
func (c *clients) waitHandlers(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.handlers.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *clients) add(conn net.Conn) *clientConn {
	client := &clientConn{Conn: conn, owner: c}
	client.touch()
	c.mu.Lock()
	var victim *clientConn
	if c.within >= c.max {
		victim = c.oldestUnproven()
	}
	if client.excess = c.within >= c.max && victim == nil; !client.excess {
		c.within++
	}
	c.accepted++
	client.number = c.accepted
	c.open[client] = struct{}{}
	c.mu.Unlock()
	if victim != nil {
		_ = victim.Close() // nobody there to tell
	}
	return client
}

// oldestUnproven is the connection that makes room when the limit is reached: the
// one that has kept its place longest without a request that may use the proxy.
// Otherwise as many silent connections as the limit would keep clients out until
// the header timeout. nil if all are proven. c.mu is held.
func (c *clients) oldestUnproven() *clientConn {
	var oldest *clientConn
	for client := range c.open {
		if client.excess || client.proven.Load() {
			continue
		}
		if oldest == nil || client.number < oldest.number {
			oldest = client
		}
	}
	return oldest
}

func (c *clients) remove(client *clientConn) {
	c.mu.Lock()
	delete(c.open, client)
	if !client.excess {
		c.within--
	}
	c.mu.Unlock()
	<-c.slots
}

// closeAll ends every connection and lets no further handler begin.
func (c *clients) closeAll() {
	c.mu.Lock()
	c.closing = true
	rest := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	closeEach(rest)
}

// closeIdle closes connections on which nothing has moved for the given time and
// says how many.
func (c *clients) closeIdle(idle time.Duration) int {
	limit := c.clock.Now().Add(-idle).UnixNano()
	var stalled []*clientConn
	c.mu.Lock()
	for client := range c.open {
		if client.moved.Load() <= limit {
			stalled = append(stalled, client)
		}
	}
	c.mu.Unlock()
	closeEach(stalled)
	return len(stalled)
}

func closeEach(conns []*clientConn) {
	for _, conn := range conns {
		// Nobody is left to tell.
		_ = conn.Close()
	}
}

type limitedListener struct {
	net.Listener
	clients *clients
	stop    <-chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.clients.slots <- struct{}{}:
	case <-l.stop:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.clients.slots
		return nil, err
	}
	return l.clients.add(conn), nil
}

// clientConn is a client's connection that knows when a byte last moved.
type clientConn struct {
	net.Conn
	owner  *clients
	moved  atomic.Int64
	closed sync.Once
	// excess is set when the connection came in beyond the limit.
	excess bool
	// proven is set by the first request that may use the proxy.
	proven atomic.Bool
	// number is the order of arrival.
	number uint64
}

func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.touch()
	}
	return n, err
}

func (c *clientConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.touch()
	}
	return n, err
}

func (c *clientConn) Close() error {
	err := net.ErrClosed
	c.closed.Do(func() {
		err = c.Conn.Close()
		c.owner.remove(c)
	})
	return err
}

// CloseWrite passes a half-close on; net/http and ReverseProxy look for it.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// SetLinger is what abort needs.
func (c *clientConn) SetLinger(sec int) error {
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(sec)
	}
	return nil
}

func (c *clientConn) touch() { c.moved.Store(c.owner.clock.Now().UnixNano()) }

type clientKey struct{}

// withClient lets a handler find its connection.
func withClient(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, conn)
}

// prove keeps a request's connection from being closed for another client.
func prove(ctx context.Context) {
	if client, ok := ctx.Value(clientKey{}).(*clientConn); ok {
		client.proven.Store(true)
	}
}

// isExcess tells whether a request came over a connection beyond the limit.
func isExcess(ctx context.Context) bool {
	client, ok := ctx.Value(clientKey{}).(*clientConn)
	return ok && client.excess
}
