// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

// start is when a fake clock starts.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestRunningWorkEndsWithinTheGrace(t *testing.T) {
	began, finish := make(chan struct{}, 1), make(chan struct{})
	origin := startOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		began <- struct{}{}
		<-finish
		_, _ = io.WriteString(w, "done")
	})
	echo := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) { _, _ = io.Copy(conn, reader) })
	p := startProxy(t, forwardproxy.Config{Clock: clocktesting.NewFakeClock(start())})
	tunnel := openTunnel(t, p, echo)
	idle := dialRaw(t, p.address)
	idle.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	idle.response(http.MethodGet)
	running := dialRaw(t, p.address)
	running.say("GET " + origin.URL + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
	receive(t, began)

	p.cancel()
	_, err := idle.rest()
	require.NoError(t, err, "idle connections end at once")
	var d net.Dialer
	_, err = d.DialContext(context.Background(), "tcp", p.address)
	require.Error(t, err, "nothing is accepted any more")
	tunnel.say("still here")
	tunnel.hear("still here")
	close(finish)
	_, body := running.response(http.MethodGet)
	require.Equal(t, "done", body)
	require.NoError(t, tunnel.CloseWrite())
	require.NoError(t, p.stop(t), "all work is done, so the fake grace needn't pass")
}

func TestWhatOutlastsTheGraceIsCut(t *testing.T) {
	silent := rawOrigin(t, func(_ *net.TCPConn, reader *bufio.Reader) { _, _ = reader.ReadBytes(0) })
	dialing := make(chan struct{}, 1)
	fake := clocktesting.NewFakeClock(start())
	server, err := forwardproxy.New(forwardproxy.Config{Clock: fake, Timeouts: forwardproxy.Timeouts{Grace: time.Minute, Idle: time.Hour}})
	require.NoError(t, err)
	server.SetDial(func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "hung.test:1" {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
		dialing <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	listener, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(t, err)
	p := serve(t, server, listener)
	tunnel := openTunnel(t, p, silent)
	request := dialRaw(t, p.address)
	request.say("GET http://" + silent + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
	half := dialRaw(t, p.address)
	half.say("GET http://half-a-requ")
	hung := dialRaw(t, p.address)
	hung.say("CONNECT hung.test:1 HTTP/1.1\r\nHost: x\r\n\r\n")
	receive(t, dialing)

	p.cancel()
	require.Eventually(t, func() bool { return fake.Waiters() >= 2 }, patience, time.Millisecond, "ticker and grace")
	fake.Step(time.Minute)
	require.NoError(t, p.stop(t))
	for _, c := range []*rawConn{tunnel, request, half, hung} {
		rest, _ := c.rest()
		require.NotContains(t, rest, "200 OK")
	}
	require.Zero(t, p.OpenConnections())
}

func TestStalledConnectionsAreClosed(t *testing.T) {
	silent := rawOrigin(t, func(_ *net.TCPConn, reader *bufio.Reader) { _, _ = reader.ReadBytes(0) })
	echo := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) { _, _ = io.Copy(conn, reader) })
	fake := clocktesting.NewFakeClock(start())
	p := startProxy(t, forwardproxy.Config{Clock: fake, Timeouts: forwardproxy.Timeouts{Idle: time.Hour}})
	tunnel := openTunnel(t, p, silent)
	upload := dialRaw(t, p.address)
	upload.say("POST http://" + silent + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
	alive := openTunnel(t, p, echo)
	require.Eventually(t, func() bool { return p.OpenConnections() == 3 }, patience, time.Millisecond)

	require.Eventually(t, fake.HasWaiters, patience, time.Millisecond)
	fake.Step(59 * time.Minute)
	alive.say("x")
	alive.hear("x")
	require.Equal(t, 3, p.OpenConnections(), "not yet")
	fake.Step(30 * time.Minute)
	_, _ = tunnel.rest()
	_, _ = upload.rest()
	alive.say("y")
	alive.hear("y")
	require.Eventually(t, func() bool { return p.OpenConnections() == 1 }, patience, time.Millisecond)
}

func TestSlowHeaderIsCut(t *testing.T) {
	p := startProxy(t, forwardproxy.Config{Timeouts: forwardproxy.Timeouts{Header: 50 * time.Millisecond}})
	c := dialRaw(t, p.address)
	c.say("GET http://x/ HTTP/1.1\r\nHost: x\r\n")
	rest, err := c.rest()
	require.NoError(t, err)
	require.NotContains(t, rest, "200 OK")
}

func TestHugeHeaderIsRefused(t *testing.T) {
	p := startProxy(t, forwardproxy.Config{})
	c := dialRaw(t, p.address)
	chunk := make([]byte, 16<<10)
	for i := range chunk {
		chunk[i] = 'a'
	}
	c.say("GET http://x/ HTTP/1.1\r\nHost: x\r\nX-Big: ")
	for range 8 {
		if _, err := c.Write(chunk); err != nil {
			break // refused already
		}
	}
	res, err := http.ReadResponse(c.reader, nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, res.StatusCode)
}

func TestConnectionsBeyondTheLimitAreTold(t *testing.T) {
	echo := rawOrigin(t, func(conn *net.TCPConn, reader *bufio.Reader) { _, _ = io.Copy(conn, reader) })
	p := startProxy(t, forwardproxy.Config{MaxConnections: 2})
	first := openTunnel(t, p, echo)
	openTunnel(t, p, echo)
	excess := dialRaw(t, p.address)
	excess.say("GET http://" + echo + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
	res, _ := excess.response(http.MethodGet)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Equal(t, "proxy-operator; error=connection_limit_reached", res.Header.Get("Proxy-Status"))
	require.True(t, res.Close)
	_, err := excess.rest()
	require.NoError(t, err)

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return p.OpenConnections() == 1 }, patience, time.Millisecond)
	again := openTunnel(t, p, echo)
	again.say("room again")
	again.hear("room again")
}

func TestServeSaysThatTheListenerBroke(t *testing.T) {
	server, err := forwardproxy.New(forwardproxy.Config{})
	require.NoError(t, err)
	listener, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.ErrorIs(t, server.Serve(context.Background(), listener), net.ErrClosed)
}

func TestListenSaysWhyItCannot(t *testing.T) {
	listener, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(t, err)
	_, err = forwardproxy.Listen(context.Background(), listener.Addr().String())
	require.ErrorIs(t, err, forwardproxy.ErrAddressInUse)
	require.ErrorContains(t, err, "listen on "+listener.Addr().String())
	require.NoError(t, listener.Close())
	_, err = forwardproxy.Listen(context.Background(), "192.0.2.1:0")
	require.Error(t, err)
	require.NotErrorIs(t, err, forwardproxy.ErrAddressInUse)
}
