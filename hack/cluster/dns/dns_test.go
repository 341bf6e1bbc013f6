// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// resolver asks a server on loopback that knows one Service, as Go programs do.
func resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, conn, func(namespace, name string) ([]netip.Addr, bool) {
			return []netip.Addr{netip.MustParseAddr("10.96.0.7")}, namespace == "crawl" && name == "judge"
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done, "it ends with its context")
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestServicesAreFoundByName(t *testing.T) {
	r := resolver(t)
	for name, c := range map[string]struct{ why, ask, answer string }{
		"a Service":                    {"the full name, as the search list makes it", "judge.crawl.svc.cluster.local.", "10.96.0.7"},
		"a Service in capitals":        {"names have no case", "Judge.crawl.svc.CLUSTER.local.", "10.96.0.7"},
		"one of another namespace":     {"names are told apart", "judge.other.svc.cluster.local.", ""},
		"a name outside the cluster":   {"there is nobody to ask", "example.com.", ""},
		"a pod of a Service":           {"not served", "a.judge.crawl.svc.cluster.local.", ""},
		"a name with no Service in it": {"not served", "crawl.svc.cluster.local.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := r.LookupHost(t.Context(), c.ask)
			if c.answer == "" {
				var missing *net.DNSError
				require.ErrorAs(t, err, &missing, c.why)
				require.True(t, missing.IsNotFound)
				return
			}
			require.NoError(t, err, c.why)
			require.Equal(t, []string{c.answer}, got)
		})
	}
}

func TestANameWithoutIPv6IsNotAnError(t *testing.T) {
	got, err := resolver(t).LookupIP(t.Context(), "ip", "judge.crawl.svc.cluster.local.")
	require.NoError(t, err)
	require.Len(t, got, 1)
}

func TestEndpointsOfAHeadlessService(t *testing.T) {
	all := []*discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{
		{Addresses: []string{"10.244.0.2"}},
		{Addresses: []string{"10.244.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
		{Addresses: []string{"fd00::1"}},
	}}}
	ready := []netip.Addr{netip.MustParseAddr("10.244.0.2")}
	require.Equal(t, ready, endpoints(&corev1.Service{}, all))
	every := append(ready, netip.MustParseAddr("10.244.0.3"))
	require.Equal(t, every, endpoints(&corev1.Service{Spec: corev1.ServiceSpec{PublishNotReadyAddresses: true}}, all))
}
