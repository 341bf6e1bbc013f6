// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/providertest"
)

func zones() []string { return []string{"a", "b"} }

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Harness{Open: func(t testing.TB) providertest.World {
		c := New(Options{Zones: zones(), PageSize: 3, Boot: 20 * time.Millisecond, Clock: clock.RealClock{}})
		server := httptest.NewServer(c)
		t.Cleanup(server.Close)
		process := func(account string) providers.Provider { return NewProvider(account, server.URL, zones(), nil) }
		return providertest.World{
			Process: func() providers.Provider { return process("model") },
			Account: "model", Zones: zones(), PageSize: 3,
			Settle:   func() {}, // nothing is ever under way
			Patience: 10 * time.Second,
			Count:    func() int { return c.Machines("model") },
			Exists: func(ref providers.Ref) bool {
				zone, name, _ := strings.Cut(ref.Path, "/")
				c.mu.Lock()
				defer c.mu.Unlock()
				_, held := c.account(ref.Account).find(zone, name)
				return held
			},
			Vanish: func(ref providers.Ref) { send(t, http.MethodDelete, server.URL+"/"+ref.Account+"/"+ref.Path, nil) },
			Plant: func(zone, name string) func() bool {
				send(t, http.MethodPut, server.URL+"/model/"+zone+"/"+name, machine{Port: 1})
				return func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					at, held := c.account("model").find(zone, name)
					return held && c.account("model").zones[zone][at].Tags == providers.Tags{}
				}
			},
			Elsewhere: func() (providers.Provider, string) { return process("other"), "other" },
		}
	}})
}

// send is a request of somebody else.
func send(t testing.TB, method, url string, body any) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(string(raw)))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Less(t, resp.StatusCode, http.StatusBadRequest)
}

func request(uid, zone string) providers.CreateRequest {
	key := providers.Key{InstallationID: "inst", ProxyUID: uid, Incarnation: 1, Account: "model", Zone: zone}
	return providers.CreateRequest{Key: key, Name: key.Name(), Port: 3128, Tags: providers.Tags{
		ManagedBy: providers.ManagedBy, Installation: "inst", OwnerUID: uid, Namespace: "ns", Name: "n", Incarnation: 1, SpecHash: "v1:h",
	}}
}

func TestEveryCallIsCountedAndTheQuotaIsKept(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	c := New(Options{Zones: zones(), PageSize: 2, Quotas: map[string]Quota{"model": {PerSecond: 1, Burst: 5}}, Clock: clk})
	server := httptest.NewServer(c)
	defer server.Close()
	further := 0
	p := NewProvider("model", server.URL, zones(), func(context.Context) { further++ })
	var refs []providers.Ref
	for _, uid := range []string{"1", "2", "3", "4", "5"} {
		i, err := p.Create(t.Context(), request(uid, "a"))
		require.NoError(t, err)
		refs = append(refs, i.Ref)
	}
	_, err := p.Create(t.Context(), request("6", "a"))
	var refused *providers.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, providers.Throttled, refused.Class)
	require.Equal(t, time.Second, refused.RetryAfter)
	require.Equal(t, Calls{Creates: 6, Rejected: 1}, c.Calls("model"))

	all, err := p.ListByTag(t.Context(), providers.Selector{Installation: "inst"})
	require.NoError(t, err, "reads have a quota of their own")
	require.Len(t, all, 5)
	require.Equal(t, 4, c.Calls("model").Lists, "three pages and an empty zone")
	require.Equal(t, 3, further)

	clk.Step(time.Second)
	require.NoError(t, p.Delete(t.Context(), refs[0]))
	_, err = p.Get(t.Context(), refs[0])
	require.True(t, providers.Is(err, providers.NotFound), "%v", err)
	require.Equal(t, Calls{Gets: 1, Deletes: 1}, c.Calls("model").Since(Calls{Lists: 4, Creates: 6, Rejected: 1}))
	require.Equal(t, 4, c.Machines("model"))
}
