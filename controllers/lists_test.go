// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// TestAFleetAtRestCostsOneListATick: polling each machine by itself took 80 to 90 % of an account's calls
// (kubernetes-sigs/cluster-api-provider-aws#1764).
func TestAFleetAtRestCostsOneListATick(t *testing.T) {
	w := newWorld(t, cloud.GCE())
	var names []string
	for n := range 6 {
		names = append(names, fmt.Sprintf("px-%d", n))
		w.create(names[n])
		w.ready(names[n])
	}
	lists, gets := w.count(cloud.OpList), w.count(cloud.OpGet)
	const ticks = 5
	for range ticks * len(names) {
		for _, name := range names {
			res, err := w.pass(name)
			require.NoError(t, err)
			require.Equal(t, driftPoll, res.RequeueAfter)
		}
		w.clock.SetTime(w.clock.Now().Add(driftPoll / time.Duration(len(names))))
	}
	require.LessOrEqual(t, w.count(cloud.OpList)-lists, ticks)
	require.Equal(t, gets, w.count(cloud.OpGet), "a machine that is in the list isn't in doubt")
}

func TestWhoFindsThatAMachineStoppedWakesItsOwner(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("finder")
	w.create("owner")
	w.ready("finder")
	p := w.ready("owner")
	var woken []string
	w.r.Wake = func(id types.NamespacedName) { woken = append(woken, id.Name) }
	ref, err := providers.ParseRef(p.Status.ProviderID)
	require.NoError(t, err)
	require.True(t, w.cloud.Stop(ref))
	w.clock.SetTime(w.clock.Now().Add(driftPoll + time.Second))
	_, err = w.pass("finder")
	require.NoError(t, err)
	require.Equal(t, []string{"owner"}, woken)
	_, err = w.pass("owner")
	require.NoError(t, err)
	require.False(t, isReady(w.get("owner")), "the pass that it was woken for sees it")
}

// TestANeighboursOwnerIsNotWoken: an operator of some namespaces has no cache of the others, and its passes there would fail
// for ever.
func TestANeighboursOwnerIsNotWoken(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("px")
	w.ready("px")
	var woken []string
	w.r.Wake = func(id types.NamespacedName) { woken = append(woken, id.String()) }
	k := providers.Key{InstallationID: "inst", ProxyUID: "theirs", Incarnation: 1, Account: "cloud"}
	w.cloud.Plant("cloud", "", k.Name(), providers.Tags{
		ManagedBy: providers.ManagedBy, Installation: "inst", OwnerUID: "theirs", Namespace: "neighbour", Name: "px", Incarnation: 1, SpecHash: "v1:0",
	})
	w.clock.SetTime(w.clock.Now().Add(driftPoll + time.Second))
	_, err := w.pass("px")
	require.NoError(t, err)
	require.Empty(t, woken)
}

func TestAChangeIsNotJudgedByAListFromBefore(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("px")
	p := w.ready("px")
	w.annotate("px", "crawl.proxy-operator.io/replace-requested-at", w.clock.Now().UTC().Add(-time.Millisecond).Format(time.RFC3339Nano))
	w.until("px", func() bool {
		return len(w.cloud.All()) == 0 || w.machines(string(p.UID))[0].State == providers.StateDeleting
	})
	before := w.count(cloud.OpList)
	_, err := w.pass("px")
	require.NoError(t, err)
	require.Equal(t, before+1, w.count(cloud.OpList), "the list from before the delete tells nothing of what came of it")
}

// TestAMachineThatAPersonLabelledIsLeftAlone: tags can be copied, and then it reads as a twin of the Proxy's own.
func TestAMachineThatAPersonLabelledIsLeftAlone(t *testing.T) {
	w := newWorld(t, cloud.GCE())
	w.create("px")
	p := w.ready("px")
	mine := w.machines(string(p.UID))[0]
	theirs := w.cloud.Plant("cloud", mine.Zone, "bastion", mine.Tags)
	w.clock.SetTime(w.clock.Now().Add(2 * driftPoll))
	for range 5 {
		_, err := w.tick("px")
		require.NoError(t, err)
	}
	require.True(t, w.cloud.Exists(theirs))
	require.Equal(t, mine.Ref.String(), w.get("px").Status.ProviderID)
	w.delete("px")
	w.until("px", func() bool { return w.gone("px") })
	require.True(t, w.cloud.Exists(theirs), "nor is it taken with the Proxy")
}

func TestAReplacementThatIsAskedForDoesNotWaitForTheNextList(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("px")
	p := w.ready("px")
	_, err := w.tick("px")
	require.NoError(t, err)
	w.clock.SetTime(w.clock.Now().Add(50 * time.Second)) // the newest list is from before the request
	w.annotate("px", "crawl.proxy-operator.io/replace-requested-at", w.clock.Now().UTC().Add(-time.Second).Format(time.RFC3339))
	_, err = w.pass("px")
	require.NoError(t, err)
	require.Equal(t, 1, w.cloud.Deletes(string(p.UID)))
}

func TestAProxyThatNothingCanBeMadeFromAsksNoCloud(t *testing.T) {
	w := newWorld(t, cloud.GCE())
	w.create("stuck", func(p *v1alpha1.Proxy) {
		p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "missing", Key: "user-data"}}
	})
	w.create("px")
	w.ready("px")
	w.gives("stuck", v1alpha1.ReasonCloudInitError)
	before := len(w.cloud.Calls())
	for range 10 {
		for _, name := range []string{"stuck", "px"} {
			_, err := w.pass(name)
			require.NoError(t, err)
		}
		w.clock.SetTime(w.clock.Now().Add(30 * time.Second))
	}
	require.LessOrEqual(t, len(w.cloud.Calls())-before, 6, "one list a minute, for all")
	w.secret("missing", map[string]string{"user-data": "#cloud-config"})
	w.ready("stuck")
}

// TestAFewCallsASecondAreEnoughToDelete: each new list took the turn of the Get that was to follow it, for ever.
func TestAFewCallsASecondAreEnoughToDelete(t *testing.T) {
	w := newWorld(t, cloud.GCE())
	w.create("stays")
	w.create("goes")
	w.ready("stays")
	w.ready("goes")
	acc := w.r.Providers["cloud"]
	acc.Limits = providers.Limits{CallsPerSecond: 0.5, Burst: 1}
	w.r.Providers["cloud"] = acc
	w.r.memory.lists = nil
	w.r.Guard(3)
	w.delete("goes")
	start := w.clock.Now()
	next := map[string]time.Time{}
	for w.clock.Since(start) < 5*time.Minute && !w.gone("goes") {
		for _, name := range []string{"stays", "goes"} {
			if w.clock.Now().Before(next[name]) || w.gone(name) {
				continue
			}
			res, _ := w.pass(name)
			next[name] = w.clock.Now().Add(max(res.RequeueAfter, time.Second))
		}
		w.clock.SetTime(w.clock.Now().Add(100 * time.Millisecond))
	}
	require.True(t, w.gone("goes"))
}
