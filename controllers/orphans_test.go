// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestAMachineWithoutAProxyIsDeleted(t *testing.T) {
	for _, p := range cloud.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			b := newBroom(t, p)
			b.create("stays")
			b.ready("stays")
			uid := string(b.create("goes").UID)
			b.ready("goes")
			orphan := b.lose("goes")
			stays := len(b.machines(string(b.get("stays").UID)))

			require.NoError(t, b.c.Sweep(t.Context(), "cloud"))
			require.Equal(t, 1, b.left(orphan))
			require.Equal(t, 1, b.gauge(orphanYoung))
			b.swept(1)
			require.Equal(t, 1, b.gauge(orphanYoung), "five minutes old")
			b.swept(2)
			require.Zero(t, b.left(orphan))
			require.Equal(t, 1, b.cloud.Deletes(uid))
			b.swept(2)
			require.Empty(t, b.machines(uid))
			require.Zero(t, b.gauge(orphanProven))
			require.Len(t, b.machines(string(b.get("stays").UID)), stays)
			require.Zero(t, b.cloud.Deletes(string(b.get("stays").UID)))

			require.Equal(t, 1, b.told(v1alpha1.ReasonOrphanDeleted))
			require.Equal(t, 1, b.logged("deleting an instance", orphan.String(), uid, b.ns+"/goes", `"incarnation"=1`, `"specHash"="v`, `"ip"="10.`, `"zone"=`, `"created"=`),
				"the whole record, in one line: %s", strings.Join(b.logs, "\n"))
			require.Equal(t, 6, b.results(sweepDone))
			require.Equal(t, 1, b.metric("proxy_operator_orphans_deleted_total", "cloud"))
			require.Nil(t, b.note())
		})
	}
}

func TestAfterAnErrorOfTheAPIServerNothingIsSweptForAMinute(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	b.plant("inst", b.ns, "gone")
	b.swept(1)
	b.c.Cache = reader{Reader: b.api, list: func(client.ObjectList) error { return errors.New("down") }}
	require.ErrorContains(t, b.sweep(), "sweep account cloud for orphans: list proxies: down")
	b.c.Cache = b.api
	b.later(59 * time.Second)
	require.NoError(t, b.c.Sweep(t.Context(), "cloud"))
	require.Equal(t, 1, b.results(sweepSkipped))
	require.Zero(t, b.count(cloud.OpDelete))
	b.later(time.Second)
	require.NoError(t, b.c.Sweep(t.Context(), "cloud"))
	require.Equal(t, 1, b.count(cloud.OpDelete), "the sighting from before the error counts")
}

func TestA404OfSomethingBetweenIsNobodysAbsence(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	refs := b.owned()
	b.knowsNobody()
	cfg := rest.CopyConfig(apiConfig)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return lost404{rt} })
	live, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: b.api.RESTMapper()})
	require.NoError(t, err)
	b.c.Live = live
	for range 3 {
		require.ErrorContains(t, b.sweep(), "get proxy "+b.ns+"/a: ")
	}
	require.Equal(t, 1, b.left(refs...))
}

// lost404 asks for a path that the API server doesn't serve, as before the CRD's version is there again.
type lost404 struct{ http.RoundTripper }

func (l lost404) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Path = strings.Replace(r.URL.Path, "v1alpha1", "v1alpha0", 1)
	return l.RoundTripper.RoundTrip(r)
}

func TestAnInstanceThatIsListedTwiceIsOne(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	ref := b.plant("inst", b.ns, "gone")
	b.through(twice{b.c.Providers["cloud"].Provider})
	b.swept(2)
	require.Zero(t, b.left(ref))
	require.Equal(t, 1, b.count(cloud.OpDelete), "and no reason to stop")
	b.plantMany(3)
	b.swept(2)
	require.Equal(t, 3, b.gauge(orphanHeld), "wherever it is in the list")
}

// twice is a provider whose pages overlap.
type twice struct{ providers.Provider }

func (p twice) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	list, err := p.Provider.ListByTag(ctx, sel)
	return append(list, list...), err
}

func TestForgedLabelsAreLeftAlone(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	tags := providers.Tags{
		ManagedBy: providers.ManagedBy, Installation: "inst", OwnerUID: "gone", Namespace: b.ns, Name: "a", Incarnation: 1, SpecHash: "v1:x",
	}
	ref := b.cloud.Plant("cloud", "", "web-1", tags)
	b.later(time.Hour)
	b.swept(3)
	require.Equal(t, 1, b.left(ref))
	require.Zero(t, b.gauge(orphanProven)+b.gauge(orphanHeld)+b.gauge(orphanYoung))
}

func TestAProxyMadeAnewUnderTheNameDoesNotOwnTheOldMachine(t *testing.T) {
	b := newBroom(t, cloud.GCE())
	b.create("a")
	b.ready("a")
	orphan := b.lose("a")
	uid := string(b.create("a").UID)
	b.ready("a")
	b.later(time.Hour)
	b.swept(2)
	require.Zero(t, b.left(orphan))
	require.Len(t, b.machines(uid), 1)
	require.Zero(t, b.cloud.Deletes(uid))
}

func TestACrashBetweenTwoSweepsTakesOneMore(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	orphan := b.plant("inst", b.ns, "gone")
	b.swept(1)
	b.crash()
	b.swept(1)
	require.Equal(t, 1, b.left(orphan))
	b.swept(1)
	require.Zero(t, b.left(orphan))
}

func TestAnotherMachineAtTheRefIsSeenForTheFirstTime(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	old := b.plant("inst", b.ns, "gone")
	b.swept(1)
	require.True(t, b.cloud.Vanish(old))
	require.Equal(t, old, b.plant("inst", b.ns, "gone"))
	b.swept(1)
	require.Equal(t, 1, b.left(old))
	b.swept(1)
	require.Zero(t, b.left(old))
}

func TestACreateUnderWayIsAnOwner(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	orphan := b.plant("inst", b.ns, "gone")
	busy := true
	b.c.Busy = func(uid string) bool { return busy && uid == "gone" }
	b.swept(3)
	require.Equal(t, 1, b.left(orphan))
	busy = false
	b.swept(1)
	require.Equal(t, 1, b.left(orphan), "it was owned until now")
	b.swept(1)
	require.Zero(t, b.left(orphan))
}

func TestTheOwnerIsLookedForAgainBeforeTheDelete(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	refs := b.owned()
	b.knowsNobody()
	looks := 0
	b.c.Live = liveLater{b.api, &looks}
	b.swept(2)
	require.Equal(t, 3, looks, "one in each sweep, and one before the delete")
	require.Equal(t, 1, b.left(refs...))
}

// liveLater is an API server that knows a Proxy from the third look on.
type liveLater struct {
	client.Reader
	looks *int
}

func (l liveLater) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*v1alpha1.Proxy); !ok {
		return l.Reader.Get(ctx, key, o, opts...)
	}
	if *l.looks++; *l.looks < 3 {
		key.Name = "nobody"
	}
	return l.Reader.Get(ctx, key, o, opts...)
}

func TestModeReportTellsOnceAndDeletesNothing(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	b.mode(providers.OrphansReport)
	refs := b.plantMany(3)
	b.swept(4)
	require.Equal(t, 3, b.left(refs...))
	require.Equal(t, 3, b.told(v1alpha1.ReasonOrphanReported))
	require.Equal(t, 3, b.logged("an instance has no Proxy", `"specHash"="v1:x"`))
	require.Equal(t, 3, b.gauge(orphanProven))
	require.Nil(t, b.note(), "there is nothing to confirm")
}

func TestModeOffLooksAtNothing(t *testing.T) {
	for _, mode := range []providers.OrphanMode{providers.OrphansOff, ""} {
		b := newBroom(t, cloud.Pod())
		b.mode(mode)
		b.plant("inst", b.ns, "gone")
		b.swept(3)
		require.Empty(t, b.cloud.Calls())
		require.NoError(t, b.c.Sweep(t.Context(), "no-such-account"))
	}
}

func TestWhatIsLeftOfAMachineIsDeletedToo(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	orphan := b.plant("inst", b.ns, "gone")
	require.True(t, b.cloud.Terminate(orphan))
	stuck := &stays{Provider: b.c.Providers["cloud"].Provider}
	b.through(stuck)
	b.swept(4)
	require.Equal(t, 3, stuck.deletes, "told again for as long as a disk or an address is listed")
	require.Equal(t, 1, b.told(v1alpha1.ReasonOrphanDeleted), "and counted once")
	require.Equal(t, 1, b.logged("deleting an instance"))
	b.plant("inst", b.ns, "gone-2")
	b.swept(2)
	require.Equal(t, 2, b.told(v1alpha1.ReasonOrphanDeleted), "what is on its way out doesn't count among many")
}

// stays is a provider that accepts deletes of machines of which something is left for ever.
type stays struct {
	providers.Provider
	deletes int
}

func (s *stays) Delete(context.Context, providers.Ref) error {
	s.deletes++
	return nil
}

func TestADeleteThatFailsDoesNotHoldUpTheOthers(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	for n := range 20 {
		b.create("p" + string(rune('a'+n)))
		b.ready("p" + string(rune('a'+n)))
	}
	refs := b.plantMany(2)
	b.swept(1)
	first := refs[0]
	if refs[1].Path < first.Path {
		first = refs[1]
	}
	b.cloud.SetDoor(func(k cloud.Call) cloud.Fault {
		if k.Op == cloud.OpDelete && k.Ref == first {
			return cloud.Fault{Class: providers.Permanent}
		}
		return cloud.Fault{}
	})
	b.swept(1)
	require.Equal(t, 2, b.left(refs...), "the sweep ended at the first")
	require.Equal(t, 1, b.results(sweepFailed))
	require.Equal(t, 1, b.logged("the delete was not accepted", first.String(), "Permanent"))
	b.swept(1)
	require.Equal(t, 1, b.left(refs...))
	b.cloud.SetDoor(nil)
	b.swept(1)
	require.Zero(t, b.left(refs...))
}

func TestANewLeaderWaits(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	b.c.Since = b.clock.Now()
	b.later(youngLeadership - time.Second)
	require.NoError(t, b.c.Sweep(t.Context(), "cloud"))
	require.Equal(t, 1, b.results(sweepSkipped))
	b.later(time.Second)
	require.NoError(t, b.c.Sweep(t.Context(), "cloud"))
	require.Equal(t, 1, b.results(sweepDone))
}

func TestTheSweeperSweepsEveryFiveMinutesUntilItsEnd(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	clk := clocktesting.NewFakeClock(b.clock.Now())
	b.c.Clock = clk
	s := &Sweeper{Collector: b.c, Clock: clk}
	require.True(t, s.NeedLeaderElection())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	require.Eventually(t, clk.HasWaiters, time.Minute, time.Millisecond)
	clk.Step(sweepEvery - time.Second)
	require.Empty(t, b.cloud.Calls())
	clk.Step(time.Second)
	require.Eventually(t, func() bool { return b.results(sweepDone) == 1 }, time.Minute, time.Millisecond)
	clk.Step(sweepEvery)
	require.Eventually(t, func() bool { return b.results(sweepDone) == 2 }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, 2, b.count(cloud.OpList))
}
