// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

// ownAddress is an address of 127/8 that isn't 127.0.0.1 where the platform
// answers to all of them (Linux), else 127.0.0.1 (macOS).
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	listener, err := forwardproxy.Listen(context.Background(), "127.83.2.9:0")
	if err != nil {
		return netip.MustParseAddr("127.0.0.1")
	}
	require.NoError(t, listener.Close())
	return netip.MustParseAddr("127.83.2.9")
}

func TestOriginOnLoopbackSeesTheProxysOwnAddress(t *testing.T) {
	own := ownAddress(t)
	origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err == nil {
			_, _ = io.WriteString(w, host)
		}
	})
	_, port, err := net.SplitHostPort(origin.Listener.Addr().String())
	require.NoError(t, err)
	cases := map[string]struct {
		why, host, want string
		bind            netip.Addr
	}{
		"bound":             {"proxies on one machine are told apart", "127.0.0.1", own.String(), own},
		"bound, by a name":  {"the decision is taken after the lookup", "known.test", own.String(), own},
		"not bound":         {"that is the kernel's choice", "127.0.0.1", "127.0.0.1", netip.Addr{}},
		"bound, unroutable": {"0.0.0.0 would lead back to the proxy's own address", "0.0.0.0", "127.0.0.1", own},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, forwardproxy.Config{EgressBind: tc.bind, Resolver: resolver(t, "known.test")})
			_, body := get(t, p.client(t, nil, nil), "http://"+net.JoinHostPort(tc.host, port))
			require.Equal(t, tc.want, body, tc.why)

			tunnel := openTunnel(t, p, net.JoinHostPort(tc.host, port))
			tunnel.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			_, body = tunnel.response(http.MethodGet)
			require.Equal(t, tc.want, body, tc.why)
		})
	}
}

func TestOnlyIPv4LoopbackIsReachedFromTheEgressAddress(t *testing.T) {
	cases := map[string]struct {
		why, address string
		want         bool
	}{
		"loopback":         {"", "127.0.0.1:80", true},
		"other loopback":   {"all of 127/8 is local", "127.9.9.9:80", true},
		"the world":        {"a socket bound to 127/8 can't leave the machine", "192.0.2.1:80", false},
		"a private net":    {"the same", "10.0.0.1:80", false},
		"IPv6 loopback":    {"another family can't be bound to IPv4", "[::1]:80", false},
		"mapped loopback":  {"the socket may be of the other family", "[::ffff:127.0.0.1]:80", false},
		"unspecified":      {"the kernel would connect to the source address itself", "0.0.0.0:80", false},
		"not an address":   {"never guess", "localhost:80", false},
		"link-local, zone": {"", "[fe80::1%eth0]:80", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, forwardproxy.BindsFor(tc.address), tc.why)
		})
	}
}

func TestEgressAddressMustBeInLoopback(t *testing.T) {
	for _, address := range []string{"192.0.2.1", "::1", "0.0.0.0"} {
		_, err := forwardproxy.New(forwardproxy.Config{EgressBind: netip.MustParseAddr(address)})
		require.ErrorContains(t, err, "must be an address in 127.0.0.0/8", address)
	}
}
