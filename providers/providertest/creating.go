// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func idempotent(_ World, t providers.Traits) bool { return t.Idempotent() }

// creating lists what Create promises when nothing goes wrong.
func creating() []promise {
	return []promise{
		{
			name: "an instance is created, seen, deleted and gone",
			why:  "this is the main job", check: wholeLife,
		},
		{
			name: "Traits are constant",
			why:  "the reconcile loop builds its waits on them", check: constantTraits,
		},
		{
			name: "tags come back exactly as they were given",
			why:  "what runs is told by the instance's tags; a tag that changes on the way is drift, or an orphan", check: exactTags,
		},
		{
			name: "a repeat of one key returns the instance of the first call",
			why:  "after a restart the same create is sent again; it must not make a second machine", when: idempotent, check: repeated,
		},
		{
			name: "a repeat by another process returns the instance of the first call",
			why:  "a new leader sends the old one's create again", when: idempotent, check: repeatedElsewhere,
		},
		{
			name: "creates of one key at the same time make one instance",
			why:  "an old leader's call is still in flight when the new one's is sent", when: idempotent, check: concurrentOneKey,
		},
		{
			name: "creates of different keys at the same time make one instance each",
			why:  "every method may be called from several goroutines at once", check: concurrentKeys,
		},
		{
			name: "a create token outlives its instance",
			why:  "a create that arrives late must not make a machine that was deleted already",
			when: func(_ World, t providers.Traits) bool { return t.CreateToken }, check: tokenOutlives,
		},
		{
			name: "a name is free again when its instance is gone",
			why:  "Delete must take away all that Create made, else the leavings hold the name and cost money",
			when: func(_ World, t providers.Traits) bool { return t.UniqueNames && !t.CreateToken }, check: nameFreed,
		},
		{
			name: "a zone that the account hasn't is refused for good",
			why:  "no retry will help, and NotFound would read as an instance that is gone",
			when: func(w World, _ providers.Traits) bool { return len(w.Zones) > 0 }, check: unknownZone,
		},
	}
}

func wholeLife(s *scene) {
	req := s.request()
	made := s.create(s.p, req)
	s.exact()
	running := s.running(made.Ref)
	require.Equal(s.t, made.Ref, running.Ref, s.why)
	require.Equal(s.t, req.Name, running.Name, s.why)
	require.Equal(s.t, req.Key.Zone, running.Zone, "an instance must be in the zone of its key")
	require.Equal(s.t, req.Tags, running.Tags, s.why)
	s.exact()
	listed := s.only(req)
	running.CreatedAt, listed.CreatedAt = running.CreatedAt.UTC(), listed.CreatedAt.UTC()
	require.Equal(s.t, running, listed, "Get and ListByTag must tell the same of a settled instance")
	s.remove(made.Ref)
	s.none(req)
}

func constantTraits(s *scene) {
	first := s.p.Traits()
	require.GreaterOrEqual(s.t, int64(first.Lag), int64(0), s.why)
	require.GreaterOrEqual(s.t, int64(first.CallDeadline), int64(0), s.why)
	require.Equal(s.t, first.CreateToken, first.TokenTTL > 0, "TokenTTL belongs to CreateToken")
	s.create(s.p, s.request())
	s.settle()
	require.Equal(s.t, first, s.p.Traits(), s.why)
	require.Equal(s.t, first, s.process().Traits(), s.why)
}

func exactTags(s *scene) {
	long := strings.Repeat("n", 31) + "-" + strings.Repeat("9", 31)
	dotted := "a.b-c." + strings.Repeat("x", 56) + "0"
	for name, tags := range map[string]providers.Tags{
		"the longest":               {Namespace: long, Name: dotted, SpecHash: "v1:" + strings.Repeat("f", 60)},
		"one character each":        {Namespace: "0", Name: "z", SpecHash: "v1:0"},
		"what looks like a number":  {Namespace: "007", Name: "1e3", SpecHash: "v12:00e1"},
		"what looks like a boolean": {Namespace: "true", Name: "null", SpecHash: "v1:no"},
		"hyphens and dots in a row": {Namespace: "a--b", Name: "a--b.c---d", SpecHash: "v1:a-b_c.d"},
	} {
		req := s.request()
		req.Tags = tags
		req.Labels = map[string]string{"example.com/Team_1": "Crawl.a-B_2", "empty": ""}
		req = s.derive(req, func(k *providers.Key) { k.Incarnation = 1<<53 + 1 })
		made := s.create(s.p, req)
		s.exact()
		require.Equal(s.t, req.Tags, s.only(req).Tags, "%s: %s", name, s.why)
		got, err := s.process().Get(s.ctx, made.Ref)
		require.NoError(s.t, err, name)
		require.Equal(s.t, req.Tags, got.Tags, "%s: %s", name, s.why)
	}
}

func repeated(s *scene) {
	req := s.request()
	first := s.create(s.p, req)
	require.Equal(s.t, first.Ref, s.create(s.p, req).Ref, s.why)
	s.settle()
	require.Equal(s.t, first.Ref, s.create(s.p, req).Ref, s.why)
	s.settle()
	require.Equal(s.t, first.Ref, s.only(req).Ref, s.why)
}

func repeatedElsewhere(s *scene) {
	req := s.request()
	first := s.create(s.p, req)
	require.Equal(s.t, first.Ref, s.create(s.process(), req).Ref, s.why)
	s.settle()
	s.running(first.Ref)
	require.Equal(s.t, first.Ref, s.create(s.process(), req).Ref, s.why)
	s.settle()
	require.Equal(s.t, first.Ref, s.only(req).Ref, s.why)
}

// together calls each function in a goroutine of its own, all at the same moment.
func together(fs ...func()) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, f := range fs {
		wg.Go(func() { <-start; f() })
	}
	close(start)
	wg.Wait()
}

func concurrentOneKey(s *scene) {
	req := s.request()
	answers := make([]providers.Instance, 8)
	errs := make([]error, len(answers))
	calls := make([]func(), len(answers))
	for n := range calls {
		p := s.p
		if n%2 == 1 {
			p = s.process()
		}
		calls[n] = func() { answers[n], errs[n] = p.Create(s.ctx, req) }
	}
	together(calls...)
	s.settle()
	only := s.only(req)
	answered := 0
	for n, err := range errs {
		if err == nil {
			answered++
			require.Equal(s.t, only.Ref, answers[n].Ref, s.why)
			continue
		}
		class := providers.MutationClass(err)
		require.Contains(s.t, []providers.ErrorClass{providers.Transient, providers.Ambiguous, providers.Throttled}, class, "%s: %v", s.why, err)
	}
	require.Positive(s.t, answered, "one of the calls must be answered: %v", errs)
}

func concurrentKeys(s *scene) {
	reqs := make([]providers.CreateRequest, 5)
	calls := make([]func(), len(reqs))
	for n := range reqs {
		reqs[n] = s.request()
		calls[n] = func() {
			i, err := s.p.Create(s.ctx, reqs[n])
			if !assert.NoError(s.t, err, s.why) {
				return
			}
			_, err = s.p.Get(s.ctx, i.Ref)
			assert.True(s.t, err == nil || providers.Is(err, providers.NotFound), "%v", err)
			_, err = s.p.ListByTag(s.ctx, providers.Selector{Installation: s.installation})
			assert.NoError(s.t, err, s.why)
			s.p.Traits()
		}
	}
	together(calls...)
	s.settle()
	for _, req := range reqs {
		s.only(req)
	}
	require.Len(s.t, s.list(s.p, providers.Selector{Installation: s.installation}), len(reqs), s.why)
}

func tokenOutlives(s *scene) {
	req := s.request()
	first := s.create(s.p, req)
	s.remove(first.Ref)
	again := s.create(s.process(), req)
	require.Equal(s.t, first.Ref, again.Ref, s.why)
	require.False(s.t, again.State.Alive(), s.why)
	s.settle()
	s.none(req)
}

func nameFreed(s *scene) {
	req := s.request()
	first := s.create(s.p, req)
	s.remove(first.Ref)
	s.create(s.process(), req)
	s.exact()
	again := s.only(req)
	require.False(s.t, again.CreatedAt.Before(first.CreatedAt), s.why)
	s.running(again.Ref)
	s.remove(again.Ref)
}

func unknownZone(s *scene) {
	req := s.derive(s.request(), func(k *providers.Key) { k.Zone = "no-such-zone" })
	_, err := s.p.Create(s.ctx, req)
	require.Equal(s.t, providers.Permanent, providers.MutationClass(err), "%s: %v", s.why, err)
	var e *providers.Error
	require.ErrorAs(s.t, err, &e)
	require.NotEmpty(s.t, e.Field, "the user must learn which field to change")
	if c, ok := s.w.Process().(providers.Checker); ok {
		require.Equal(s.t, providers.Permanent, providers.Class(c.Check(req), ""), "Check must know it without a call")
		require.NoError(s.t, c.Check(s.request()), "Check must not refuse what Create takes")
	}
	s.settle()
	s.none(req)
}
