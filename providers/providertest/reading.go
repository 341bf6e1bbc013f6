// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// reading lists what Get and ListByTag promise.
func reading() []promise {
	return []promise{
		{
			name: "reads may miss a create within the lag, and are exact after it",
			why:  "NotFound is proof only after the lag; a lag that is declared too short makes a second machine", check: lagging,
		},
		{
			name: "a list has the instances of every page and zone",
			why:  "machine-controller-manager-provider-azure#207 never saw what was beyond page 1", check: everyPage,
		},
		{
			name: "a list that breaks off is an error, not a part",
			why:  "a failed read taken as the whole deletes the rest (kubernetes-sigs/external-dns#2858)",
			when: func(w World, _ providers.Traits) bool { return w.FailPage != nil && w.PageSize > 0 }, check: brokenList,
		},
		{
			name: "a selector picks by installation and owner",
			why:  "what a Proxy's list shows is taken for the Proxy's own, and deleted with it", check: selecting,
		},
		{
			name: "a selector without an installation picks nothing",
			why:  "an empty id would hand over the machines of every operator in the account", check: emptySelector,
		},
		{
			name: "an instance that stopped by itself is told as stopped",
			why:  "a machine that doesn't run must be replaced; NotFound or Running would hide it",
			when: func(w World, _ providers.Traits) bool { return w.Stop != nil }, check: stopped,
		},
		{
			name: "an instance that vanished is NotFound and off the list",
			why:  "a machine removed by hand must be made anew, and deleting it is done (cluster-api-provider-gcp#1647)",
			when: func(w World, _ providers.Traits) bool { return w.Vanish != nil }, check: vanished,
		},
		{
			name: "CreatedAt stays as it is, and orders instances by age",
			why:  "of twins the oldest stays; processes must agree which that is", check: ages,
		},
	}
}

func lagging(s *scene) {
	req := s.request()
	made := s.create(s.p, req)
	for range 3 {
		_, err := s.process().Get(s.ctx, made.Ref)
		require.True(s.t, err == nil || providers.Is(err, providers.NotFound), "%s: %v", s.why, err)
		require.LessOrEqual(s.t, len(s.of(req)), 1, s.why)
	}
	s.exact()
	for range 4 {
		_, err := s.process().Get(s.ctx, made.Ref)
		require.NoError(s.t, err, s.why)
		require.Equal(s.t, made.Ref, s.only(req).Ref, s.why)
	}
	s.remove(made.Ref)
	for range 4 {
		s.absent(made.Ref)
	}
}

func everyPage(s *scene) {
	want := make([]providers.Ref, 0, 2*s.w.PageSize+1)
	var last providers.CreateRequest
	for n := range max(5, 2*s.w.PageSize+1) {
		last = s.request()
		if len(s.w.Zones) > 0 {
			last = s.derive(last, func(k *providers.Key) { k.Zone = s.w.Zones[n%len(s.w.Zones)] })
		}
		want = append(want, s.create(s.p, last).Ref)
	}
	s.exact()
	require.ElementsMatch(s.t, want, refs(s.list(s.process(), providers.Selector{Installation: s.installation})), s.why)
	s.only(last)
}

func brokenList(s *scene) {
	for range 2*s.w.PageSize + 1 {
		s.create(s.p, s.request())
	}
	s.exact()
	for page := 1; page <= 3; page++ {
		s.w.FailPage(page)
		list, err := s.process().ListByTag(s.ctx, providers.Selector{Installation: s.installation})
		require.Error(s.t, err, "page %d: %s", page, s.why)
		require.Empty(s.t, list, "page %d: %s", page, s.why)
	}
	require.Len(s.t, s.list(s.p, providers.Selector{Installation: s.installation}), 2*s.w.PageSize+1, s.why)
}

func selecting(s *scene) {
	one, other := s.request(), s.request()
	// a cluster that was copied: same owner, another installation
	copied := s.derive(one, func(k *providers.Key) { k.InstallationID = providers.InstallationID("copied", s.t.Name()) })
	second := s.derive(one, func(k *providers.Key) { k.Incarnation = 2 })
	place := map[string]providers.Ref{}
	for _, req := range []providers.CreateRequest{one, other, copied, second} {
		place[req.Name] = s.create(s.p, req).Ref
	}
	s.exact()
	p := s.process()
	for _, c := range []struct {
		sel  providers.Selector
		want []providers.Ref
	}{
		{providers.Selector{Installation: s.installation}, []providers.Ref{place[one.Name], place[second.Name], place[other.Name]}},
		{providers.Selector{Installation: s.installation, OwnerUID: one.Key.ProxyUID}, []providers.Ref{place[one.Name], place[second.Name]}},
		{providers.Selector{Installation: s.installation, OwnerUID: other.Key.ProxyUID}, []providers.Ref{place[other.Name]}},
		{providers.Selector{Installation: copied.Key.InstallationID}, []providers.Ref{place[copied.Name]}},
		{providers.Selector{Installation: copied.Key.InstallationID, OwnerUID: other.Key.ProxyUID}, []providers.Ref{}},
		{providers.Selector{Installation: s.installation[:8]}, []providers.Ref{}},
		{providers.Selector{Installation: s.installation, OwnerUID: one.Key.ProxyUID[:8]}, []providers.Ref{}},
	} {
		require.ElementsMatch(s.t, c.want, refs(s.list(p, c.sel)), "%+v: %s", c.sel, s.why)
	}
}

func emptySelector(s *scene) {
	s.create(s.p, s.request())
	req := s.request()
	s.create(s.p, req)
	s.exact()
	for _, sel := range []providers.Selector{{}, {OwnerUID: req.Key.ProxyUID}} {
		list, err := s.p.ListByTag(s.ctx, sel)
		require.True(s.t, err != nil || len(list) == 0, "%s: %+v", s.why, list)
	}
}

func stopped(s *scene) {
	req := s.request()
	ref := s.create(s.p, req).Ref
	s.running(ref)
	s.w.Stop(ref)
	s.exact()
	over := []providers.InstanceState{providers.StateStopped, providers.StateTerminated}
	s.await("it is told as stopped", func() bool {
		i, err := s.process().Get(s.ctx, ref)
		require.NoError(s.t, err, s.why)
		return !i.State.Alive()
	})
	s.exact()
	i, err := s.process().Get(s.ctx, ref)
	require.NoError(s.t, err, s.why)
	require.Contains(s.t, over, i.State, s.why)
	require.Contains(s.t, over, s.only(req).State, s.why)
	s.remove(ref)
}

func vanished(s *scene) {
	req := s.request()
	ref := s.create(s.p, req).Ref
	s.running(ref)
	s.w.Vanish(ref)
	s.exact()
	s.absent(ref)
	s.none(req)
	err := s.process().Delete(s.ctx, ref)
	require.Equal(s.t, providers.NotFound, providers.MutationClass(err), "%s: %v", s.why, err)
}

func ages(s *scene) {
	older := s.request()
	younger := s.derive(older, func(k *providers.Key) { k.Incarnation = 2 })
	s.create(s.p, older)
	s.w.pass(ageGap)
	s.create(s.p, younger)
	s.exact()
	age := func() (a, b providers.Instance) {
		for _, i := range s.of(older) {
			if i.Name == older.Name {
				a = i
			} else {
				b = i
			}
		}
		return a, b
	}
	a, b := age()
	require.True(s.t, a.CreatedAt.Before(b.CreatedAt), "%s: %s, then %s", s.why, a.CreatedAt, b.CreatedAt)
	s.running(a.Ref)
	s.running(b.Ref)
	s.settle()
	a2, b2 := age()
	require.True(s.t, a.CreatedAt.Equal(a2.CreatedAt) && b.CreatedAt.Equal(b2.CreatedAt), s.why)
}
