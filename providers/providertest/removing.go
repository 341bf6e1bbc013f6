// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// ageGap is more than the coarsest clock of a cloud that we know (seconds) rounds away.
const ageGap = 1100 * time.Millisecond

// removing lists what Delete promises.
func removing() []promise {
	return []promise{
		{
			name: "a delete can be repeated until the instance is gone",
			why:  "nil says asked, NotFound says done; an error on the second ask would keep the Proxy for ever", check: deletedTwice,
		},
		{
			name: "a delete of what is gone is NotFound, for every process",
			why:  "a new leader doesn't know what the old one deleted", check: deletedUnknown,
		},
		{
			name: "an instance can be deleted while it is being provisioned",
			why:  "a Proxy is deleted seconds after it was made; its machine must not come up later", check: deletedEarly,
		},
		{
			name: "an instance on its way out is listed as such until it is gone",
			why:  "the finalizer goes when the list is empty; a machine that is off the list too early is leaked", check: listedUntilGone,
		},
		{
			name: "a delete takes its own instance and no other",
			why:  "the old incarnation's deletion must not take the new one", check: deletesOne,
		},
		{
			name: "deletes at the same time are one delete",
			why:  "an old leader's call is still in flight when the new one's is sent", check: deletedTogether,
		},
	}
}

func deletedTwice(s *scene) {
	made := s.create(s.p, s.request())
	s.running(made.Ref)
	for range 3 {
		if err := s.p.Delete(s.ctx, made.Ref); err != nil {
			require.Equal(s.t, providers.NotFound, providers.MutationClass(err), "%s: %v", s.why, err)
		}
	}
	s.remove(made.Ref)
	err := s.p.Delete(s.ctx, made.Ref)
	require.Equal(s.t, providers.NotFound, providers.MutationClass(err), "%s: %v", s.why, err)
}

func deletedUnknown(s *scene) {
	made := s.create(s.p, s.request())
	s.remove(made.Ref)
	stranger := s.process()
	err := stranger.Delete(s.ctx, made.Ref)
	require.Equal(s.t, providers.NotFound, providers.MutationClass(err), "%s: %v", s.why, err)
	_, err = stranger.Get(s.ctx, made.Ref)
	require.Equal(s.t, providers.NotFound, providers.ReadClass(err), "%s: %v", s.why, err)
}

func deletedEarly(s *scene) {
	req := s.request()
	made := s.create(s.p, req)
	s.await("the delete is accepted", func() bool {
		err := s.process().Delete(s.ctx, made.Ref)
		if providers.Is(err, providers.Transient) {
			return false // not ready for it yet
		}
		require.NoError(s.t, err, s.why) // NotFound would say that it is done
		return true
	})
	s.remove(made.Ref)
	s.settle()
	s.absent(made.Ref)
	s.none(req)
}

func listedUntilGone(s *scene) {
	req := s.request()
	made := s.create(s.p, req)
	s.running(made.Ref)
	require.NoError(s.t, s.p.Delete(s.ctx, made.Ref), s.why)
	s.exact()
	s.await("it is off the list", func() bool {
		list := s.of(req)
		if len(list) > 0 {
			require.Equal(s.t, providers.StateDeleting, list[0].State, s.why)
			return false
		}
		if s.w.Exists != nil {
			require.False(s.t, s.w.Exists(made.Ref), s.why)
		}
		return true
	})
	s.exact()
	s.absent(made.Ref)
}

func deletesOne(s *scene) {
	old := s.request()
	fresh := s.derive(old, func(k *providers.Key) { k.Incarnation = 2 })
	other := s.request()
	made := s.create(s.p, old)
	kept := []providers.Ref{s.create(s.p, fresh).Ref, s.create(s.p, other).Ref}
	s.remove(made.Ref)
	s.settle()
	list := s.list(s.process(), providers.Selector{Installation: s.installation})
	require.ElementsMatch(s.t, kept, refs(list), s.why)
	for _, i := range list {
		require.True(s.t, i.State.Alive(), "%s: %+v", s.why, i)
	}
}

func deletedTogether(s *scene) {
	req := s.request()
	made := s.create(s.p, req)
	s.running(made.Ref)
	errs := make([]error, 6)
	calls := make([]func(), len(errs))
	for n := range calls {
		p := s.process()
		calls[n] = func() { errs[n] = p.Delete(s.ctx, made.Ref) }
	}
	together(calls...)
	for _, err := range errs {
		require.Contains(s.t, []providers.ErrorClass{
			"", providers.NotFound, providers.Transient, providers.Ambiguous, providers.Throttled,
		}, providers.MutationClass(err), "%s: %v", s.why, err)
	}
	s.remove(made.Ref)
	s.none(req)
}
