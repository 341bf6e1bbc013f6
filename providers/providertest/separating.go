// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// separating lists what keeps machines of different owners, places and accounts apart.
func separating() []promise {
	return []promise{
		{
			name: "other incarnations, owners, installations and zones are other instances",
			why:  "an answer with the machine of another key is an answer with another's machine", check: sideBySide,
		},
		{
			name: "a name held by an instance that isn't ours is a conflict, and that instance is left alone",
			why:  "adopting it would send traffic through it, and delete it in the end",
			when: func(w World, t providers.Traits) bool { return w.Plant != nil && t.UniqueNames }, check: foreignHolder,
		},
		{
			name: "an instance that isn't ours but has our name is never ours",
			why:  "where names are not unique only the tags tell whose a machine is",
			when: func(w World, t providers.Traits) bool { return w.Plant != nil && !t.UniqueNames }, check: foreignNamesake,
		},
		{
			name: "a Ref of another account is refused, not NotFound",
			why:  "asked in the wrong place, NotFound would let go of a machine that runs", check: wrongAccount,
		},
		{
			name: "accounts don't see each other's instances",
			why:  "one account's sweep must not take another's machines",
			when: func(w World, _ providers.Traits) bool { return w.Elsewhere != nil }, check: otherAccount,
		},
	}
}

func sideBySide(s *scene) {
	first := s.request()
	reqs := []providers.CreateRequest{
		first,
		s.derive(first, func(k *providers.Key) { k.Incarnation = 2 }),
		s.derive(first, func(k *providers.Key) { k.Incarnation = 12 }),
		s.derive(first, func(k *providers.Key) { k.InstallationID = providers.InstallationID("another", s.t.Name()) }),
		s.request(),
	}
	if len(s.w.Zones) > 1 {
		reqs = append(reqs, s.derive(first, func(k *providers.Key) { k.Zone = s.w.Zones[1] }))
	}
	places := map[providers.Ref]providers.CreateRequest{}
	for _, req := range reqs {
		places[s.create(s.p, req).Ref] = req
	}
	require.Len(s.t, places, len(reqs), s.why)
	s.exact()
	p := s.process()
	for ref, req := range places {
		got, err := p.Get(s.ctx, ref)
		require.NoError(s.t, err, s.why)
		require.Equal(s.t, req.Tags, got.Tags, s.why)
		require.Equal(s.t, req.Name, got.Name, s.why)
		require.Equal(s.t, req.Key.Zone, got.Zone, s.why)
	}
}

func foreignHolder(s *scene) {
	req := s.request()
	untouched := s.w.Plant(req.Key.Zone, req.Name)
	s.exact()
	for _, p := range []providers.Provider{s.p, s.process()} {
		_, err := p.Create(s.ctx, req)
		var e *providers.Error
		require.ErrorAs(s.t, err, &e, s.why)
		require.Equal(s.t, providers.Permanent, e.Class, s.why)
		require.Equal(s.t, providers.CodeNameConflict, e.Code, s.why)
	}
	s.settle()
	s.none(req)
	require.Empty(s.t, s.list(s.p, providers.Selector{Installation: s.installation}), s.why)
	require.True(s.t, untouched(), s.why)
	s.create(s.p, s.derive(req, func(k *providers.Key) { k.Incarnation = 2 })) // the way out
}

func foreignNamesake(s *scene) {
	req := s.request()
	untouched := s.w.Plant(req.Key.Zone, req.Name)
	s.exact()
	made := s.create(s.p, req)
	s.exact()
	require.Equal(s.t, made.Ref, s.only(req).Ref, s.why)
	s.remove(made.Ref)
	s.settle()
	require.True(s.t, untouched(), s.why)
}

func wrongAccount(s *scene) {
	req := s.request()
	made := s.create(s.p, req)
	s.exact()
	ref := providers.Ref{Account: s.w.Account + "-2", Path: made.Ref.Path}
	_, err := s.p.Get(s.ctx, ref)
	require.Equal(s.t, providers.Permanent, providers.Class(err, "none"), "%s: %v", s.why, err)
	err = s.p.Delete(s.ctx, ref)
	require.Equal(s.t, providers.Permanent, providers.Class(err, "none"), "%s: %v", s.why, err)
	s.settle()
	require.True(s.t, s.only(req).State.Alive(), s.why)
}

func otherAccount(s *scene) {
	raw, account := s.w.Elsewhere()
	elsewhere := &checked{t: s.t, provider: raw, account: account, zones: s.w.Zones, why: s.why}
	here := s.request()
	there := s.derive(here, func(k *providers.Key) { k.Account = account })
	require.NotEqual(s.t, s.create(s.p, here).Ref, s.create(elsewhere, there).Ref, s.why)
	s.exact()
	for _, c := range []struct {
		p   providers.Provider
		req providers.CreateRequest
	}{{s.p, here}, {elsewhere, there}} {
		list := s.list(c.p, providers.Selector{Installation: s.installation})
		require.Len(s.t, list, 1, s.why)
		require.Equal(s.t, c.req.Name, list[0].Name, s.why)
	}
}
