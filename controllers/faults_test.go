// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// TestKilledAtAnyPointLeavesOneInstance kills the operator before and after each of its calls that change something,
// in the life of a Proxy that is created, edited and deleted: on the most honest cloud and on the one that promises
// nothing.
func TestKilledAtAnyPointLeavesOneInstance(t *testing.T) {
	for _, p := range []cloud.Profile{cloud.Pod(), cloud.DO()} {
		t.Run(p.Name, func(t *testing.T) {
			for n := 1; ; n++ {
				if !killedAt(t, p, n) {
					require.Greater(t, n, 16, "every point was reached")
					return
				}
			}
		})
	}
}

// killedAt lives one life with a kill at the n-th point, and reports whether it came that far.
func killedAt(t *testing.T, p cloud.Profile, n int) bool {
	w := newWorld(t, p)
	points, killed := 0, false
	point := func() {
		if points++; points == n {
			killed = true
			panic(errCrash)
		}
	}
	w.hooks.before = func(string) error { point(); return nil }
	w.hooks.after = func(string) error { point(); return nil }
	w.cloud.SetDoor(func(c cloud.Call) cloud.Fault {
		if c.Op != cloud.OpCreate && c.Op != cloud.OpDelete {
			return cloud.Fault{}
		}
		point()
		return cloud.Fault{After: point}
	})
	live := func(holds func() bool) {
		t.Helper()
		start := w.clock.Now()
		for range 500 {
			if holds() || w.clock.Since(start) > time.Hour {
				break
			}
			before := w.clock.Now()
			if w.crashing("a") {
				w.restart()
			}
			if w.clock.Now().Equal(before) {
				w.clock.SetTime(before.Add(time.Second))
			}
		}
		require.True(t, holds(), "killed at point %d: %s", n, w.describe("a"))
	}
	uid := string(w.create("a").UID)
	live(func() bool { return isReady(w.get("a")) && len(w.machines(uid)) == 1 })
	w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](3129) })
	live(func() bool { return isReady(w.get("a")) && w.get("a").Status.Port == 3129 && len(w.machines(uid)) == 1 })
	require.LessOrEqual(t, w.cloud.Creates(uid), 2, "killed at point %d: one instance for each spec", n)
	w.delete("a")
	live(func() bool { return w.gone("a") })
	require.Empty(t, w.machines(uid), "killed at point %d", n)
	return killed
}

func TestALostAnswerIsFoundAgain(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		w.cloud.SetDoor(onCreate(cloud.Fault{LoseAnswer: true}))
		w.ready("a")
		require.Equal(t, 1, w.cloud.Creates(uid), "adopted, not doubled")
		w.removed("a")
	})
}

func TestAnAnswerThatComesLateIsFoundAgain(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		w.cloud.SetDoor(onCreate(cloud.Fault{Late: 20 * time.Second}))
		w.ready("a")
		w.until("a", func() bool { return len(w.machines(uid)) == 1 })
		require.Equal(t, 1, w.cloud.Creates(uid))
	})
}

func TestARequestThatNeverArrivedIsSentAgain(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		w.cloud.SetDoor(onCreate(cloud.Fault{Class: providers.Ambiguous}))
		w.ready("a")
		require.Equal(t, 1, w.cloud.Creates(uid))
		require.Len(t, w.machines(uid), 1)
	})
}

func TestEveryErrorClassOfACreateHasItsConditionAndHeals(t *testing.T) {
	reasons := map[providers.ErrorClass]string{
		providers.Transient:     v1alpha1.ReasonProviderError,
		providers.Ambiguous:     v1alpha1.ReasonProvisioning,
		providers.Throttled:     v1alpha1.ReasonThrottled,
		providers.QuotaExceeded: v1alpha1.ReasonQuotaExceeded,
		providers.Capacity:      v1alpha1.ReasonCapacityExhausted,
		providers.Denied:        v1alpha1.ReasonAccessDenied,
		providers.Permanent:     v1alpha1.ReasonPermanentError,
		providers.NotFound:      v1alpha1.ReasonProviderError,
	}
	for _, class := range providers.Classes() {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t, cloud.DO())
			uid := string(w.create("a").UID)
			w.cloud.SetDoor(onlyCreatesFail(class))
			p := w.gives("a", reasons[class])
			require.Equal(t, p.Generation, p.Status.ObservedGeneration)
			start, creates := w.clock.Now(), w.count(cloud.OpCreate)
			for w.clock.Since(start) < 10*time.Minute {
				_, _ = w.tick("a")
			}
			require.Equal(t, reasons[class], reasonOf(w.get("a"), v1alpha1.ConditionReady))
			require.LessOrEqual(t, w.count(cloud.OpCreate)-creates, 25, "it backs off")
			w.cloud.SetDoor(nil)
			w.ready("a")
			require.Len(t, w.machines(uid), 1)
			w.removed("a")
		})
	}
}

func TestEqualFailuresWriteEqualStatus(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	w.cloud.SetDoor(onlyCreatesFail(providers.QuotaExceeded)) // with another request id each time
	before := w.gives("a", v1alpha1.ReasonQuotaExceeded)
	for range 3 {
		_, err := w.tick("a")
		require.NoError(t, err)
	}
	require.Equal(t, before.Status, w.get("a").Status)
}

func TestAFullZoneLeadsToTheNextOne(t *testing.T) {
	w := newWorld(t, cloud.GCE())
	w.cloud.SetFull("europe-west1-c", true)
	uid := string(w.create("a", func(p *v1alpha1.Proxy) {
		p.Spec.Location = &v1alpha1.Location{Zones: []v1alpha1.Zone{"europe-west1-c", "us-east1-d"}}
	}).UID)
	p := w.ready("a")
	require.Equal(t, "us-east1-d", p.Status.Zone)
	require.Len(t, w.machines(uid), 1)

	t.Run("and all full to a wait", func(t *testing.T) {
		w.cloud.SetFull("us-east1-d", true)
		w.create("b", func(p *v1alpha1.Proxy) { p.Spec = w.get("a").Spec })
		w.gives("b", v1alpha1.ReasonCapacityExhausted)
		w.until("b", func() bool { return w.count(cloud.OpCreate) >= 4 })
		res, err := w.pass("b")
		require.NoError(t, err)
		require.Equal(t, quotaRetry, res.RequeueAfter)
		w.cloud.SetFull("us-east1-d", false)
		w.ready("b")
	})
}

// hanging is a provider whose create answers only when its context ends.
type hanging struct{ providers.Provider }

func (h hanging) Create(ctx context.Context, _ providers.CreateRequest) (providers.Instance, error) {
	<-ctx.Done()
	return providers.Instance{}, fmt.Errorf("create instance: %w", ctx.Err()) // no class: a doubt
}

func (h hanging) Traits() providers.Traits {
	t := h.Provider.Traits()
	t.CallDeadline = 50 * time.Millisecond
	return t
}

func TestAProviderThatHangsIsADoubt(t *testing.T) {
	w := newWorld(t, cloud.DO())
	acc := w.r.Providers["cloud"]
	honest := acc.Provider
	acc.Provider = hanging{honest}
	w.r.Providers["cloud"] = acc
	w.create("a")
	_, err := w.pass("a")
	require.NoError(t, err)
	p := w.get("a")
	require.Equal(t, v1alpha1.ReasonProvisioning, reasonOf(p, v1alpha1.ConditionReady))
	require.Contains(t, messageOf(p, v1alpha1.ConditionReady), "no answer")
	acc.Provider = honest
	w.r.Providers["cloud"] = acc
	w.ready("a")
	require.Len(t, w.cloud.All(), 1)
}

// foreign is a provider that answers a create with somebody else's machine.
type foreign struct{ providers.Provider }

func (f foreign) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	i, err := f.Provider.Create(ctx, req)
	i.Tags.OwnerUID = "somebody else"
	return i, err
}

func TestAMachineThatIsNotOursIsNeverAdopted(t *testing.T) {
	t.Run("as the answer of a create", func(t *testing.T) {
		w := newWorld(t, cloud.Pod())
		acc := w.r.Providers["cloud"]
		acc.Provider = foreign{acc.Provider}
		w.r.Providers["cloud"] = acc
		w.create("a")
		_, err := w.pass("a")
		require.NoError(t, err)
		p := w.get("a")
		require.Equal(t, v1alpha1.ReasonPermanentError, reasonOf(p, v1alpha1.ConditionReady))
		require.Contains(t, messageOf(p, v1alpha1.ConditionReady), providers.CodeNameConflict)
		require.Empty(t, p.Status.ProviderID)
		require.Zero(t, w.count(cloud.OpDelete))
	})
	t.Run("under our name", func(t *testing.T) {
		w := newWorld(t, cloud.Pod())
		p := w.create("a")
		name := Intent{UID: p.UID, Incarnation: 1, Account: "cloud"}.key("inst").Name()
		planted := w.cloud.PlantForeign("cloud", "", name)
		w.gives("a", v1alpha1.ReasonPermanentError)
		w.ready("a") // the next incarnation has another name
		require.True(t, w.cloud.Exists(planted))
		w.removed("a")
		require.True(t, w.cloud.Exists(planted))
	})
	t.Run("in place of ours", func(t *testing.T) {
		w := newWorld(t, cloud.Pod())
		p := w.create("a")
		ref := recordedRef(w.ready("a"))
		require.True(t, w.cloud.Vanish(ref))
		planted := w.cloud.PlantForeign("cloud", "", w.get("a").Status.Instance.Name)
		require.Equal(t, ref, planted)
		w.until("a", func() bool { return isReady(w.get("a")) && w.get("a").Status.ProviderID != ref.String() })
		w.removed("a")
		require.True(t, w.cloud.Exists(planted))
		require.Empty(t, w.machines(string(p.UID)))
	})
}

func TestTheSameNameDeletedAndCreatedAgain(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		old := w.create("a")
		w.ready("a")
		w.removed("a")
		again := w.create("a")
		w.ready("a")
		require.NotEqual(t, old.UID, again.UID)
		require.Len(t, w.machines(string(again.UID)), 1)
		require.Zero(t, w.cloud.Deletes(string(again.UID)))
	})
}

// TestAStaleViewNeverDeletes gives a pass the Proxy that was: of an earlier name, spec or pause.
func TestAStaleViewNeverDeletes(t *testing.T) {
	later := map[string]func(w *world){
		"of a Proxy that was created again": func(w *world) {
			w.annotate("a", v1alpha1.AnnotationAbandon, string(w.get("a").UID))
			w.delete("a")
			_, err := w.pass("a")
			require.NoError(w.t, err)
			w.create("a")
		},
		"of a spec that was edited back": func(w *world) {
			w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Port = nil })
		},
		"of a Proxy that was paused": func(w *world) { w.annotate("a", v1alpha1.AnnotationPaused, "true") },
	}
	for name, change := range later {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cloud.Pod())
			w.create("a")
			w.ready("a")
			w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](3129) })
			old := w.get("a")
			change(w)
			deletes := w.count(cloud.OpDelete)
			_, err := w.r.dispatch(w.t.Context(), old)
			require.ErrorIs(t, err, errStale)
			require.Equal(t, deletes, w.count(cloud.OpDelete))
		})
	}
	t.Run("of a Secret that was rotated back", func(t *testing.T) {
		w := newWorld(t, cloud.Pod())
		w.secret("boot", map[string]string{"user-data": "one"})
		w.create("a", withUserData)
		w.ready("a")
		w.r.Secrets = &Secrets{Metadata: w.r.Client, Live: w.r.Client}
		w.secret("boot", map[string]string{"user-data": "two"})
		p := w.get("a")
		want, err := w.r.want(w.t.Context(), p, false)
		require.NoError(t, err)
		seen, err := w.r.observe(w.t.Context(), p, want)
		require.NoError(t, err)
		step := decide(seen)
		require.Equal(t, Destroy, step.Do)
		w.secret("boot", map[string]string{"user-data": "one"})
		_, err = w.r.act(w.t.Context(), p, seen, step)
		require.ErrorIs(t, err, errStale)
		require.Zero(t, w.count(cloud.OpDelete))
	})
}

func TestAnOldViewWritesNothing(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	w.hooks.before = func(kind string) error {
		if kind == "object" {
			return apierrors.NewConflict(schema.GroupResource{Resource: "proxies"}, "a", nil)
		}
		return nil
	}
	res, err := w.pass("a")
	require.NoError(t, err)
	require.Equal(t, pollFirst, res.RequeueAfter)
	require.Zero(t, w.count(cloud.OpCreate))
	require.Empty(t, w.get("a").Status.Conditions)
}

func TestACopiedObjectWithAForeignIntentIsIgnored(t *testing.T) {
	w := newWorld(t, cloud.DO())
	w.create("a")
	original := w.ready("a")
	w.create("b", func(p *v1alpha1.Proxy) {
		p.Annotations, p.Finalizers = original.Annotations, original.Finalizers
	})
	copied := w.ready("b")
	require.NotEqual(t, original.Status.ProviderID, copied.Status.ProviderID)
	require.EqualValues(t, 1, copied.Status.Instance.Incarnation)
	w.removed("b")
	require.Len(t, w.machines(string(original.UID)), 1, "the original's machine is untouched")
	require.True(t, isReady(w.get("a")))
}

func TestAnIntentThatSomebodyOverwroteIsRepaired(t *testing.T) {
	w := newWorld(t, cloud.GCE())
	uid := string(w.create("a").UID)
	w.ready("a")
	w.annotate("a", v1alpha1.AnnotationIntent, "{nonsense")
	w.until("a", func() bool { return readIntent(w.get("a")) != nil })
	w.ready("a")
	require.Equal(t, 1, w.cloud.Creates(uid))
}

func TestDeletedWhileCreating(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		w.cloud.SetDoor(func(c cloud.Call) cloud.Fault {
			if c.Op == cloud.OpCreate {
				w.delete("a") // in the middle of the call
			}
			return cloud.Fault{}
		})
		_, _ = w.tick("a")
		w.until("a", func() bool { return w.gone("a") })
		require.Empty(t, w.machines(uid))
	})
}
