// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

func TestAProxyThatNeverAcceptsTimesOut(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	inet, ok := bound.(*unix.SockaddrInet4)
	require.True(t, ok)
	// With its queue full the kernel drops what comes, as a firewall does.
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", "127.0.0.1:"+strconv.Itoa(inet.Port))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })

	target, _ := judgeTargets(t)
	out := prober(brief).Probe(context.Background(), probe.Proxy{Host: "127.0.0.1", Port: inet.Port, Protocol: probe.HTTP}, target)
	require.Equal(t, probe.ReasonConnectTimeout, out.Reason, out.Detail)
	require.Equal(t, probe.FaultProxy, out.Fault)
}
