// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestRoom(t *testing.T) {
	s := begin(t, GCE(), 0)
	s.SetQuota(1)
	req := s.request()
	i := s.create(req)
	require.Equal(t, i.Ref, s.create(req).Ref, "a repeat needs no room")
	_, err := s.p.Create(t.Context(), s.request())
	require.True(t, providers.Is(err, providers.QuotaExceeded))
	require.NoError(t, s.p.Delete(t.Context(), i.Ref))
	_, err = s.p.Create(t.Context(), s.request())
	require.True(t, providers.Is(err, providers.QuotaExceeded), "what is on its way out still counts")
	s.SetQuota(-1)
	s.SetFull(s.profile.Zones[0], true)
	full := s.request()
	_, err = s.p.Create(t.Context(), full)
	require.True(t, providers.Is(err, providers.Capacity))
	full.Key.Zone = s.profile.Zones[1]
	full.Name = full.Key.Name()
	s.create(full)
}

func TestWhatInstancesDoByThemselves(t *testing.T) {
	s := begin(t, Pod(), 0)
	i := s.create(s.request())
	require.True(t, s.SetIP(i.Ref, "192.0.2.7"), "before it runs")
	s.clk.Step(3 * time.Second)
	got, err := s.p.Get(t.Context(), i.Ref)
	require.NoError(t, err)
	require.Equal(t, providers.StateRunning, got.State, "a new address changes nothing else")
	require.Equal(t, "192.0.2.7", got.IP)
	require.True(t, s.Stop(i.Ref))
	_, state := s.gets(i.Ref)
	require.Equal(t, providers.StateStopped, state)
	require.True(t, s.Terminate(i.Ref))
	s.clk.Step(time.Hour)
	_, state = s.gets(i.Ref)
	require.Equal(t, providers.StateTerminated, state, "it stays on the books")
	require.NoError(t, s.p.Delete(t.Context(), i.Ref))
	require.False(t, s.Stop(i.Ref), "it is on its way out")
	require.True(t, s.Vanish(i.Ref))
	require.False(t, s.Vanish(i.Ref))
	require.Empty(t, s.All())
}

func TestTokensExpire(t *testing.T) {
	s := begin(t, AWS(), 0)
	req := s.request()
	i := s.create(req)
	require.NoError(t, s.p.Delete(t.Context(), i.Ref))
	s.clk.Step(24*time.Hour - 1)
	gone := s.create(req)
	require.Equal(t, i.Ref, gone.Ref)
	require.Equal(t, providers.StateTerminated, gone.State)
	s.clk.Step(1)
	require.NotEqual(t, i.Ref, s.create(req).Ref)
}

func TestInvalidRequests(t *testing.T) {
	cases := map[string]func(*providers.CreateRequest){
		"a name that isn't the key's": func(r *providers.CreateRequest) { r.Name = "px-other" },
		"no name":                     func(r *providers.CreateRequest) { r.Name = "" },
		"a tag is missing":            func(r *providers.CreateRequest) { r.Tags.SpecHash = "" },
		"an unknown zone":             func(r *providers.CreateRequest) { r.Key.Zone = "moon"; r.Name = r.Key.Name() },
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			s := begin(t, GCE(), 0)
			req := s.request()
			edit(&req)
			_, err := s.p.Create(t.Context(), req)
			require.True(t, providers.Is(err, providers.Permanent), "%v", err)
			require.Empty(t, s.All())
		})
	}
}

func TestHistory(t *testing.T) {
	s := begin(t, Pod(), 0)
	req := s.request()
	i := s.create(req)
	s.clk.Step(time.Second)
	s.gets(providers.Ref{Account: "model", Path: "nothing"})
	s.list()
	require.NoError(t, s.p.Delete(t.Context(), i.Ref))
	require.NoError(t, s.p.Delete(t.Context(), i.Ref))
	var told []string
	for _, k := range s.Calls() {
		told = append(told, fmt.Sprintf("%d %s#%d +%s %q %s", k.N, k.Op, k.OpN, k.At.Sub(noon), k.Class, k.Account))
	}
	require.Equal(t, []string{
		`1 create instance#1 +0s "" model`, `2 get instance#1 +1s "NotFound" model`, `3 list instances#1 +1s "" model`,
		`4 delete instance#1 +1s "" model`, `5 delete instance#2 +1s "" model`,
	}, told)
	require.Equal(t, i.Ref, s.Calls()[0].Ref)
	require.Equal(t, req, s.Calls()[0].Request)
	require.Equal(t, 1, s.Deletes(req.Key.ProxyUID), "a repeated delete counts once")
}
