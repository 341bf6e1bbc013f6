// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

// Whoever may use a proxy on a cloud's machine must not get the machine's credentials through it.
func TestDenyLocal(t *testing.T) {
	origin := startOrigin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	_, port, err := net.SplitHostPort(origin.Listener.Addr().String())
	require.NoError(t, err)
	p := startProxy(t, forwardproxy.Config{DenyLocal: true, Resolver: resolver(t, "known.test")})
	for _, host := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "168.63.129.16", "100.100.100.200", "255.255.255.255", "224.0.0.1",
		"::1", "::", "fe80::1", "ff02::1", "fd00:ec2::254", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "known.test",
	} {
		t.Run(host, func(t *testing.T) {
			target := net.JoinHostPort(host, port)
			res, _ := get(t, p.client(t, nil, nil), "http://"+target)
			require.Equal(t, http.StatusForbidden, res.StatusCode)
			require.Equal(t, "proxy-operator; error=destination_ip_prohibited", res.Header.Get("Proxy-Status"))
			c := dialRaw(t, p.address)
			c.say("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
			res, _ = c.response(http.MethodConnect)
			require.Equal(t, http.StatusForbidden, res.StatusCode)
		})
	}
	open := startProxy(t, forwardproxy.Config{})
	_, body := get(t, open.client(t, nil, nil), origin.URL)
	require.Equal(t, "hello", body, "it is a choice")
}
