// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

// account is an account whose list is as the test says.
type account struct {
	Provider
	clock     *clocktesting.FakePassiveClock
	instances []Instance
	err       error
	lists     int
	during    func()
}

func (l *account) ListByTag(context.Context, Selector) ([]Instance, error) {
	l.lists++
	if l.during != nil {
		l.during()
	}
	return l.instances, l.err
}

// machine is a genuine instance of a Proxy.
func machine(uid string, state InstanceState) Instance {
	k := Key{InstallationID: "inst", ProxyUID: uid, Incarnation: 1, Account: "cloud"}
	return Instance{
		Ref: Ref{Account: "cloud", Path: "p/" + k.Name()}, Name: k.Name(), State: state,
		Tags: Tags{ManagedBy: ManagedBy, Installation: "inst", OwnerUID: uid, Namespace: "ns", Name: "proxy-" + uid, Incarnation: 1, SpecHash: "v1:x"},
	}
}

func newAccount(instances ...Instance) (*account, *clocktesting.FakePassiveClock) {
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 8, 7, 12, 0, 0, 0, time.UTC))
	return &account{clock: c, instances: instances}, c
}

func TestOneListFeedsEveryProxyOfATick(t *testing.T) {
	p, clock := newAccount(machine("a", StateRunning), machine("b", StateRunning))
	l := NewLister(p, "inst", clock, nil)
	for range 1000 {
		s, err := l.Recent(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, []Instance{machine("b", StateRunning)}, s.Of("b"))
		clock.SetTime(clock.Now().Add(60 * time.Millisecond)) // a minute in all
	}
	require.Equal(t, 1, p.lists)
	_, err := l.Recent(t.Context(), time.Minute-time.Second)
	require.NoError(t, err)
	require.Equal(t, 2, p.lists, "the next tick has a list of its own")
}

func TestAListFromBeforeProvesNothing(t *testing.T) {
	p, clock := newAccount()
	l := NewLister(p, "inst", clock, nil)
	first, err := l.Since(t.Context(), clock.Now())
	require.NoError(t, err)
	clock.SetTime(clock.Now().Add(time.Millisecond))
	second, err := l.Since(t.Context(), clock.Now())
	require.NoError(t, err)
	require.True(t, second.StartedAt.After(first.StartedAt))
	require.Equal(t, 2, p.lists)
}

func TestAListIsDatedByWhenItBegan(t *testing.T) {
	p, clock := newAccount()
	began := clock.Now()
	p.during = func() { clock.SetTime(began.Add(20 * time.Second)) }
	s, err := NewLister(p, "inst", clock, nil).Since(t.Context(), began)
	require.NoError(t, err)
	require.Equal(t, began, s.StartedAt, "what came while it was under way may be missing")
}

func TestAListFromTheFutureIsOfAClockThatJumped(t *testing.T) {
	p, clock := newAccount()
	l := NewLister(p, "inst", clock, nil)
	_, err := l.Recent(t.Context(), time.Minute)
	require.NoError(t, err)
	clock.SetTime(clock.Now().Add(-5 * time.Minute))
	_, err = l.Recent(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, 2, p.lists, "or it would be believed for five minutes")
}

func TestAFailedListLeavesTheOneBefore(t *testing.T) {
	p, clock := newAccount(machine("a", StateRunning))
	l := NewLister(p, "inst", clock, nil)
	_, err := l.Since(t.Context(), clock.Now())
	require.NoError(t, err)
	p.instances, p.err = nil, &Error{Class: Transient, Op: "list instances", Err: errors.New("page 3 of 5")}
	clock.SetTime(clock.Now().Add(2 * time.Minute))
	_, err = l.Recent(t.Context(), time.Minute)
	require.ErrorIs(t, err, p.err, "kubernetes-sigs/external-dns#2858: an error is not an empty list")
	s, err := l.Since(t.Context(), clock.Now().Add(-3*time.Minute))
	require.NoError(t, err)
	require.Len(t, s.Of("a"), 1)
}

func TestNobodyWaitsForAnothersList(t *testing.T) {
	p, clock := newAccount()
	l := NewLister(p, "inst", clock, nil)
	p.during = func() {
		p.during = nil
		_, err := l.Since(t.Context(), clock.Now())
		require.True(t, IsHeld(err), "%v", err)
		require.Positive(t, errorOf(t, err).RetryAfter)
		_, err = l.Recent(t.Context(), time.Minute)
		require.True(t, IsHeld(err), "there is no older one to show: %v", err)
	}
	_, err := l.Since(t.Context(), clock.Now())
	require.NoError(t, err)
	clock.SetTime(clock.Now().Add(90 * time.Second))
	p.during = func() {
		p.during = nil
		s, err := l.Recent(t.Context(), time.Minute)
		require.NoError(t, err, "a Proxy at rest makes do with the older one meanwhile")
		require.Equal(t, 90*time.Second, clock.Since(s.StartedAt))
	}
	_, err = l.Recent(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, 2, p.lists)
}

func TestAListThatPanicsDoesNotBlockTheNext(t *testing.T) {
	p, clock := newAccount()
	l := NewLister(p, "inst", clock, nil)
	p.during = func() { p.during = nil; panic("in the SDK") }
	require.Panics(t, func() { _, _ = l.Since(t.Context(), clock.Now()) })
	_, err := l.Since(t.Context(), clock.Now())
	require.NoError(t, err)
}

func TestAHeldListIsNoErrorAtRest(t *testing.T) {
	p, clock := newAccount(machine("a", StateRunning))
	l := NewLister(p, "inst", clock, nil)
	_, err := l.Recent(t.Context(), time.Minute)
	require.NoError(t, err)
	p.err = &Error{Class: Throttled, Code: CodeRateLimited, Held: true, RetryAfter: time.Second}
	clock.SetTime(clock.Now().Add(61 * time.Second))
	_, err = l.Recent(t.Context(), time.Minute)
	require.NoError(t, err, "a guard delays it; that says nothing about machines")
	clock.SetTime(clock.Now().Add(60 * time.Second))
	_, err = l.Recent(t.Context(), time.Minute)
	require.True(t, IsHeld(err), "but not for ever")
}

func TestWhoseInstancesChangedIsTold(t *testing.T) {
	moved := machine("moved", StateRunning)
	moved.IP = "192.0.2.1"
	dated := machine("dated", StateRunning)
	dated.CreatedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("a", 0))
	p, clock := newAccount(machine("gone", StateRunning), machine("same", StateRunning), machine("stopped", StateRunning), moved, dated)
	var told []string
	l := NewLister(p, "inst", clock, func(owner Tags) { told = append(told, owner.Namespace+"/"+owner.Name) })
	_, err := l.Since(t.Context(), clock.Now())
	require.NoError(t, err)
	require.Empty(t, told, "the first list is no news: every Proxy has a pass anyway")
	moved.IP = "192.0.2.2"
	dated.CreatedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("b", 0))
	p.instances = []Instance{dated, machine("stopped", StateStopped), machine("same", StateRunning), moved, machine("new", StateProvisioning)}
	clock.SetTime(clock.Now().Add(time.Second))
	_, err = l.Since(t.Context(), clock.Now())
	require.NoError(t, err)
	require.Equal(t, []string{"ns/proxy-gone", "ns/proxy-moved", "ns/proxy-new", "ns/proxy-stopped"}, told)
}

func TestAMachineThatOnlyLooksLikeOursIsNobodys(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*Instance)
	}{
		"copied tags":          {"somebody labelled a machine of their own", func(i *Instance) { i.Name = "bastion" }},
		"another installation": {"two operators share the account", func(i *Instance) { i.Tags.Installation = "other" }},
		"half a record":        {"what can't be told whose it is, isn't ours", func(i *Instance) { i.Tags.SpecHash = "" }},
		"another account":      {"the account is part of the name", func(i *Instance) { i.Ref.Account = "other" }},
		"another zone":         {"and so is the zone", func(i *Instance) { i.Zone = "b" }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			forged := machine("a", StateRunning)
			c.change(&forged)
			p, clock := newAccount(forged)
			s, err := NewLister(p, "inst", clock, nil).Since(t.Context(), clock.Now())
			require.NoError(t, err)
			require.Empty(t, s.Of("a"), c.why)
			require.False(t, forged.Genuine() && forged.Tags.Installation == "inst", c.why)
		})
	}
}

func errorOf(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	return e
}
