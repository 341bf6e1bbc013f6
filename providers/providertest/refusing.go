// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// refusing lists, class by class, what must hold when the cloud says no.
func refusing() []promise {
	var out []promise
	for _, class := range providers.Classes() {
		if class == providers.Ambiguous || class == providers.NotFound {
			continue // not refusals: the one is a lost answer, the other a fact
		}
		out = append(out, promise{
			name:  "a refusal of class " + string(class) + " is told as such, and changes nothing",
			why:   "the class decides how long to wait, and that nothing was made",
			when:  func(w World, _ providers.Traits) bool { return w.Refuse[class] != nil },
			check: func(s *scene) { refused(s, class) },
		})
	}
	return out
}

func refused(s *scene, class providers.ErrorClass) {
	kept := s.request()
	made := s.create(s.p, kept)
	s.running(made.Ref)
	s.exact()

	s.w.Refuse[class](true)
	req := s.request()
	_, err := s.p.Create(s.ctx, req)
	s.told(class, true, err)
	if !ofCreatesOnly(class) {
		_, err = s.p.Get(s.ctx, made.Ref)
		s.told(class, false, err)
		_, err = s.p.ListByTag(s.ctx, providers.Selector{Installation: s.installation})
		s.told(class, false, err)
		s.told(class, true, s.p.Delete(s.ctx, made.Ref))
	}
	s.w.Refuse[class](false)

	s.settle()
	s.none(req)
	require.Equal(s.t, providers.StateRunning, s.only(kept).State, "%s: a refused delete must leave the instance alone", s.why)
	s.create(s.p, req)
	s.settle()
	s.only(req)
}

func ofCreatesOnly(class providers.ErrorClass) bool {
	return class == providers.QuotaExceeded || class == providers.Capacity || class == providers.Permanent
}

// told checks the class of a refusal. A server's error on a mutation may be Ambiguous instead of Transient: a provider
// can't know that nothing was done.
func (s *scene) told(class providers.ErrorClass, mutation bool, err error) {
	s.t.Helper()
	require.Error(s.t, err, s.why)
	got := providers.Class(err, "none")
	if mutation && class == providers.Transient && got == providers.Ambiguous {
		return
	}
	require.Equal(s.t, class, got, "%s: %v", s.why, err)
	if class == providers.Throttled {
		var e *providers.Error
		require.ErrorAs(s.t, err, &e)
		require.Positive(s.t, e.RetryAfter, "the cloud said how long to wait")
	}
}
