// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
)

// play is a cloud and one account of it.
type play struct {
	*Cloud
	t     *testing.T
	clk   *clocktesting.FakeClock
	p     providers.Provider
	owner int
}

func begin(t *testing.T, p Profile, seed uint64) *play {
	t.Helper()
	clk := clocktesting.NewFakeClock(noon)
	c := New(p, clk, seed)
	return &play{Cloud: c, t: t, clk: clk, p: c.Account("model")}
}

func (s *play) request() providers.CreateRequest {
	s.owner++
	k := providers.Key{InstallationID: "here", ProxyUID: fmt.Sprintf("uid-%d", s.owner), Incarnation: 1, Account: "model"}
	if len(s.profile.Zones) > 0 {
		k.Zone = s.profile.Zones[0]
	}
	return providers.CreateRequest{Key: k, Name: k.Name(), Tags: providers.Tags{
		ManagedBy: providers.ManagedBy, Installation: k.InstallationID, OwnerUID: k.ProxyUID,
		Namespace: "crawl", Name: "exit", Incarnation: 1, SpecHash: "v1:x",
	}}
}

func (s *play) create(req providers.CreateRequest) providers.Instance {
	s.t.Helper()
	i, err := s.p.Create(s.t.Context(), req)
	require.NoError(s.t, err)
	return i
}

func (s *play) list() []providers.Instance {
	s.t.Helper()
	list, err := s.p.ListByTag(s.t.Context(), providers.Selector{Installation: "here"})
	require.NoError(s.t, err)
	return list
}

// gets returns the class of Get's answer, and the state.
func (s *play) gets(ref providers.Ref) (providers.ErrorClass, providers.InstanceState) {
	i, err := s.p.Get(s.t.Context(), ref)
	return providers.ReadClass(err), i.State
}

func TestReadsLagAsTheProfileSays(t *testing.T) {
	s := begin(t, DO(), 0)
	i := s.create(s.request())
	require.Len(t, s.All(), 1, "the truth doesn't lag")
	s.clk.Step(3*time.Second - 1)
	class, _ := s.gets(i.Ref)
	require.Equal(t, providers.NotFound, class)
	s.clk.Step(1)
	class, state := s.gets(i.Ref)
	require.Empty(t, class)
	require.Equal(t, providers.StateProvisioning, state)
	s.clk.Step(17*time.Second - 1)
	require.Empty(t, s.list())
	s.clk.Step(1)
	require.Len(t, s.list(), 1)

	s.clk.Step(13 * time.Second) // it runs since 3 s
	_, state = s.gets(i.Ref)
	require.Equal(t, providers.StateRunning, state)
	require.Equal(t, providers.StateProvisioning, s.list()[0].State)

	require.NoError(t, s.p.Delete(t.Context(), i.Ref))
	s.clk.Step(10 * time.Second)
	require.Empty(t, s.All())
	_, state = s.gets(i.Ref)
	require.Equal(t, providers.StateDeleting, state, "3 s ago it was there")
	require.Equal(t, providers.StateProvisioning, s.list()[0].State, "20 s ago it had just been made")
	s.clk.Step(20 * time.Second)
	require.Empty(t, s.list())
}

func TestReadsFlap(t *testing.T) {
	s := begin(t, AWS(), 1)
	i := s.create(s.request())
	seen := map[providers.ErrorClass]int{}
	listed := map[int]int{}
	for range 40 {
		class, _ := s.gets(i.Ref)
		seen[class]++
		listed[len(s.list())]++
	}
	require.Greater(t, seen[providers.NotFound], 5)
	require.Greater(t, seen[""], 5)
	require.Greater(t, listed[0], 5)
	require.Greater(t, listed[1], 5)
	s.clk.Step(10 * time.Second)
	for range 40 {
		class, _ := s.gets(i.Ref)
		require.Empty(t, class)
	}
}

func TestGetForgetsBeforeTheNameIsFree(t *testing.T) {
	s := begin(t, GCE(), 0)
	req := s.request()
	i := s.create(req)
	s.clk.Step(time.Minute)
	require.NoError(t, s.p.Delete(t.Context(), i.Ref))
	s.clk.Step(24 * time.Second)
	class, _ := s.gets(i.Ref)
	require.Equal(t, providers.NotFound, class)
	require.Equal(t, providers.StateDeleting, s.list()[0].State, "the list tells the truth")
	require.NoError(t, s.p.Delete(t.Context(), i.Ref), "NotFound would say that it is done")
	_, err := s.p.Create(t.Context(), req)
	require.True(t, providers.Is(err, providers.Transient), "%v", err)
	require.Equal(t, 1, s.Creates(req.Key.ProxyUID))

	s.clk.Step(6 * time.Second)
	require.True(t, providers.Is(s.p.Delete(t.Context(), i.Ref), providers.NotFound))
	require.Equal(t, i.Ref, s.create(req).Ref)
	require.Equal(t, 2, s.Creates(req.Key.ProxyUID))
	require.Equal(t, 1, s.Deletes(req.Key.ProxyUID))
}

func TestLateCreates(t *testing.T) {
	cases := map[string]struct {
		why     string
		profile Profile
		repeat  bool // send it again at once
		remove  bool // and delete what that made
		want    int  // instances when the late call has landed
	}{
		"lands by itself": {profile: GCE(), want: 1},
		"lands beside a repeat where nothing is unique":      {profile: DO(), repeat: true, want: 2},
		"finds its name held":                                {profile: GCE(), repeat: true, want: 1},
		"finds its token used":                               {profile: AWS(), repeat: true, want: 1},
		"lands in the name that a delete has freed":          {profile: GCE(), repeat: true, remove: true, want: 1, why: "being seen doesn't close an intent"},
		"finds its token used though the instance was freed": {profile: AWS(), repeat: true, remove: true, want: 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := begin(t, c.profile, 0)
			req := s.request()
			s.next(OpCreate, Fault{Late: 59 * time.Second})
			_, err := s.p.Create(t.Context(), req)
			require.True(t, providers.Is(err, providers.Ambiguous), "%v", err)
			require.Empty(t, s.All())
			require.Len(t, s.InFlight(), 1)
			if c.repeat {
				i := s.create(req)
				if c.remove {
					require.NoError(t, s.p.Delete(t.Context(), i.Ref))
				}
			}
			s.clk.Step(59*time.Second - 1)
			require.Len(t, s.InFlight(), 1)
			s.clk.Step(1)
			require.Len(t, s.All(), c.want, c.why)
			require.Empty(t, s.InFlight())
		})
	}
}

func TestLateCallsLandInTheOrderOfTheirTimes(t *testing.T) {
	s := begin(t, Pod(), 0)
	req := s.request()
	i := s.create(req)
	s.next(OpDelete, Fault{Late: 20 * time.Second})
	require.True(t, providers.Is(s.p.Delete(t.Context(), i.Ref), providers.Ambiguous))
	second := s.request()
	s.next(OpCreate, Fault{Late: 10 * time.Second})
	_, err := s.p.Create(t.Context(), second)
	require.True(t, providers.Is(err, providers.Ambiguous))
	s.clk.Step(time.Hour) // both land while nobody looks
	all := s.All()
	require.Len(t, all, 1)
	require.Equal(t, second.Name, all[0].Name)
	require.Equal(t, noon.Add(10*time.Second), all[0].CreatedAt)
	require.Equal(t, 1, s.Deletes(req.Key.ProxyUID))
}

func TestFaults(t *testing.T) {
	for _, class := range providers.Classes() {
		t.Run("a call answered "+string(class)+" does nothing", func(t *testing.T) {
			s := begin(t, Pod(), 0)
			kept := s.create(s.request())
			s.SetDoor(func(Call) Fault { return Fault{Class: class, RetryAfter: 7 * time.Second} })
			_, err := s.p.Create(t.Context(), s.request())
			var e *providers.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, class, e.Class)
			require.Equal(t, 7*time.Second, e.RetryAfter)
			require.True(t, providers.Is(s.p.Delete(t.Context(), kept.Ref), class))
			got, _ := s.gets(kept.Ref)
			require.Equal(t, class, got)
			require.Equal(t, []providers.Instance{kept}, s.All())
		})
	}
}

func TestVendorTextDiffersFromCallToCall(t *testing.T) {
	s := begin(t, Pod(), 0)
	s.SetDown(providers.Denied)
	_, a := s.p.Create(t.Context(), s.request())
	_, b := s.p.Create(t.Context(), s.request())
	require.NotEqual(t, a.Error(), b.Error(), "status must not be made of it")
	var x, y *providers.Error
	require.ErrorAs(t, a, &x)
	require.ErrorAs(t, b, &y)
	require.Equal(t, x.Code, y.Code)
	s.SetDown("")
	s.create(s.request())
}

func TestListFaults(t *testing.T) {
	s := begin(t, Pod(), 0)
	for range 7 { // pages of 3
		s.create(s.request())
	}
	for page, want := range map[int]int{1: 4, 2: 4, 3: 6, 4: 7} {
		s.next(OpList, Fault{DropPage: page})
		require.Len(t, s.list(), want, "page %d", page)
	}
	s.next(OpList, Fault{FailPage: 3})
	list, err := s.p.ListByTag(t.Context(), providers.Selector{Installation: "here"})
	require.True(t, providers.Is(err, providers.Transient))
	require.Empty(t, list)
	s.next(OpList, Fault{Account: "another"})
	require.Empty(t, s.list(), "as after a change of credentials")
	require.Len(t, s.list(), 7)
}

func TestAnAcceptedInstanceVanishes(t *testing.T) {
	s := begin(t, GCE(), 0)
	s.next(OpCreate, Fault{VanishAfter: 5 * time.Second})
	i := s.create(s.request())
	require.Equal(t, providers.StateProvisioning, i.State)
	s.clk.Step(5 * time.Second)
	require.Empty(t, s.All())
	s.clk.Step(time.Hour)
	require.Empty(t, s.All())
}

func TestCrashes(t *testing.T) {
	cases := map[string]struct {
		door Door
		made int
	}{
		"before the call": {door: func(Call) Fault { panic("crash") }, made: 0},
		"after the call":  {door: func(Call) Fault { return Fault{After: func() { panic("crash") }} }, made: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := begin(t, Pod(), 0)
			s.SetDoor(c.door)
			require.Panics(t, func() { _, _ = s.p.Create(t.Context(), s.request()) })
			s.SetDoor(nil)
			require.Len(t, s.All(), c.made)
			require.False(t, s.Calls()[0].Answered)
			s.create(s.request()) // the cloud lives on
			require.True(t, s.Calls()[1].Answered)
		})
	}
}

func TestCancelledCalls(t *testing.T) {
	cases := map[string]struct {
		door  func(cancel func()) Door
		class providers.ErrorClass
		made  int
	}{
		"before it is sent": {
			door:  func(cancel func()) Door { return func(Call) Fault { cancel(); return Fault{} } },
			class: providers.Transient, made: 0,
		},
		"after it took effect": {
			door:  func(cancel func()) Door { return func(Call) Fault { return Fault{After: cancel} } },
			class: providers.Ambiguous, made: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := begin(t, AWS(), 0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.SetDoor(c.door(cancel))
			_, err := s.p.Create(ctx, s.request())
			require.True(t, providers.Is(err, c.class), "%v", err)
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, s.All(), c.made)
		})
	}
}
