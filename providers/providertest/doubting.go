// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// doubting lists what must hold when a process dies in a call, or an answer is lost.
func doubting() []promise {
	return []promise{
		{
			name: "a process that dies right after a create leaves an instance that another finds by its tags",
			why:  "cluster-api-provider-aws#5794 made a machine at every restart, because only the process knew of the last", check: crashed,
		},
		{
			name: "a create whose answer is lost is Ambiguous, and looking first finds its instance",
			why:  "taken for a failure, it makes a second machine (cluster-api-provider-aws#6131)",
			when: func(w World, _ providers.Traits) bool { return w.LoseCreate != nil }, check: lostCreate,
		},
		{
			name: "a create that takes effect after its caller gave up makes no twin",
			why:  "the call is sent again before the first one lands",
			when: func(w World, t providers.Traits) bool { return w.LateCreate != nil && t.Idempotent() }, check: lateCreateRepeated,
		},
		{
			name: "a create that takes effect after its caller gave up is Ambiguous",
			why:  "nothing is seen yet, and a machine will come",
			when: func(w World, _ providers.Traits) bool { return w.LateCreate != nil }, check: lateCreate,
		},
		{
			name: "a delete whose answer is lost is Ambiguous, and is repeated until it is done",
			why:  "every other class says that nothing was changed",
			when: func(w World, _ providers.Traits) bool { return w.LoseDelete != nil }, check: lostDelete,
		},
		{
			name: "a call whose context has ended already claims nothing false",
			why:  "at a shutdown all contexts end; NotFound would read as a machine that is gone", check: endedContext,
		},
		{
			name: "a create that is cancelled after any time tells the truth",
			why:  "a class other than Ambiguous promises that no instance will ever appear", check: cancelledAnyTime,
		},
		{
			name: "a create that is cancelled at any of its steps tells the truth",
			why:  "a class other than Ambiguous promises that no instance will ever appear (karpenter-provider-hetzner#61)",
			when: func(w World, _ providers.Traits) bool { return w.Interrupt != nil }, check: cancelledAnyStep,
		},
	}
}

func crashed(s *scene) {
	req := s.request()
	made := s.create(s.process(), req)
	s.exact()
	found := s.only(req)
	require.Equal(s.t, made.Ref, found.Ref, s.why)
	require.True(s.t, found.Tags.Complete(), s.why)
	s.settle()
	require.Equal(s.t, made.Ref, s.only(req).Ref, s.why)
	s.remove(found.Ref)
}

func lostCreate(s *scene) {
	req := s.request()
	s.w.LoseCreate()
	_, err := s.p.Create(s.ctx, req)
	require.Equal(s.t, providers.Ambiguous, providers.MutationClass(err), "%s: %v", s.why, err)
	s.exact()
	found := s.only(req)
	if s.traits.Idempotent() {
		require.Equal(s.t, found.Ref, s.create(s.process(), req).Ref, s.why)
	}
	s.settle()
	require.Equal(s.t, found.Ref, s.only(req).Ref, s.why)
	s.counted(1)
}

func lateCreate(s *scene) {
	req := s.request()
	s.w.LateCreate()
	_, err := s.p.Create(s.ctx, req)
	require.Equal(s.t, providers.Ambiguous, providers.MutationClass(err), "%s: %v", s.why, err)
	s.settle()
	s.remove(s.only(req).Ref)
}

func lateCreateRepeated(s *scene) {
	req := s.request()
	s.w.LateCreate()
	_, err := s.p.Create(s.ctx, req)
	require.Equal(s.t, providers.Ambiguous, providers.MutationClass(err), "%s: %v", s.why, err)
	again := s.create(s.process(), req)
	s.settle()
	require.Equal(s.t, again.Ref, s.only(req).Ref, s.why)
}

func lostDelete(s *scene) {
	made := s.create(s.p, s.request())
	s.exact()
	s.w.LoseDelete()
	err := s.p.Delete(s.ctx, made.Ref)
	require.Equal(s.t, providers.Ambiguous, providers.MutationClass(err), "%s: %v", s.why, err)
	s.remove(made.Ref)
}

func endedContext(s *scene) {
	kept := s.request()
	made := s.create(s.p, kept)
	s.exact()
	ended, cancel := context.WithCancel(s.ctx)
	cancel()

	tried := s.request()
	_, err := s.p.Create(ended, tried)
	outcome := attempt{req: tried, err: err}
	_, err = s.p.Get(ended, made.Ref)
	require.False(s.t, providers.Is(err, providers.NotFound), "%s: %v", s.why, err)
	list, err := s.p.ListByTag(ended, providers.Selector{Installation: s.installation})
	require.True(s.t, err != nil || len(list) > 0, "%s: the list reads as empty", s.why)
	err = s.p.Delete(ended, made.Ref)
	require.False(s.t, providers.Is(err, providers.NotFound), "%s: %v", s.why, err)
	untouched := err != nil && !providers.Is(err, providers.Ambiguous)

	s.settle()
	s.truthful(outcome)
	if untouched {
		require.True(s.t, s.only(kept).State.Alive(), "Delete said that nothing was changed: %v", err)
	}
}

// attempt is a create and its answer.
type attempt struct {
	req providers.CreateRequest
	ref providers.Ref
	err error
}

// try sends a create and keeps the answer.
func (s *scene) try(ctx context.Context, p providers.Provider, req providers.CreateRequest) attempt {
	s.t.Helper()
	i, err := p.Create(ctx, req)
	return attempt{req: req, ref: i.Ref, err: err}
}

// truthful checks, when all is settled, that a create's answer was right.
func (s *scene) truthful(a attempt) {
	s.t.Helper()
	found := refs(s.of(a.req))
	switch class := providers.MutationClass(a.err); class {
	case "":
		require.Equal(s.t, []providers.Ref{a.ref}, found, "%s: Create returned an instance", s.why)
	case providers.Ambiguous:
		require.LessOrEqual(s.t, len(found), 1, s.why)
	case providers.Transient, providers.Throttled, providers.QuotaExceeded, providers.Capacity, providers.Denied,
		providers.Permanent, providers.NotFound:
		require.Empty(s.t, found, "%s: class %s: %v", s.why, class, a.err)
	}
}

// resume does what a new process does: it looks first, and repeats what isn't there or may be repeated.
func (s *scene) resume(a attempt) {
	s.t.Helper()
	if len(s.of(a.req)) == 0 || s.traits.Idempotent() {
		s.create(s.process(), a.req)
	}
}

func cancelledAnyTime(s *scene) {
	var attempts []attempt
	for _, after := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 64} {
		ctx, cancel := context.WithTimeout(s.ctx, after*time.Millisecond)
		attempts = append(attempts, s.try(ctx, s.process(), s.request()))
		cancel()
	}
	s.judge(attempts)
}

func cancelledAnyStep(s *scene) {
	var attempts []attempt
	for step := 0; ; step++ {
		require.Less(s.t, step, 100, "a create has that many steps?")
		ctx, cancel := context.WithCancel(s.ctx)
		reached := s.w.Interrupt(step, cancel)
		attempts = append(attempts, s.try(ctx, s.process(), s.request()))
		cancel()
		if !reached() {
			break
		}
	}
	require.Greater(s.t, len(attempts), 1, "the harness must interrupt a create somewhere")
	s.judge(attempts)
}

// judge checks the answers of interrupted creates, and that each of them can be recovered from.
func (s *scene) judge(attempts []attempt) {
	s.t.Helper()
	s.settle()
	for _, a := range attempts {
		s.truthful(a)
		s.resume(a)
	}
	s.settle()
	for _, a := range attempts {
		s.only(a.req)
	}
	s.counted(len(attempts))
}
