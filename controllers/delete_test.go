// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// The tests below are named after the branches of the drawing of reconcileDelete in docs/architecture.md.

func TestReconcileDeleteNoFinalizer(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a", func(p *v1alpha1.Proxy) { p.Finalizers = []string{"example.com/theirs"} })
	w.delete("a")
	res, err := w.pass("a")
	require.NoError(t, err)
	require.Zero(t, res.RequeueAfter)
	require.Empty(t, w.cloud.Calls())
	require.Empty(t, w.get("a").Status.Conditions, "it belongs to others")
}

func TestReconcileDeleteNoProviderID(t *testing.T) {
	t.Run("nothing was made: the Proxy goes", func(t *testing.T) {
		w := newWorld(t, cloud.Pod())
		w.cloud.SetQuota(0)
		w.create("a")
		w.gives("a", v1alpha1.ReasonQuotaExceeded)
		require.Empty(t, w.get("a").Status.ProviderID)
		w.removed("a")
	})
	t.Run("the answer was lost: the machine is found and deleted", func(t *testing.T) {
		everyCloud(t, func(t *testing.T, w *world) {
			uid := string(w.create("a").UID)
			w.cloud.SetDoor(onCreate(cloud.Fault{LoseAnswer: true}))
			_, err := w.pass("a")
			require.NoError(t, err)
			require.Empty(t, w.get("a").Status.ProviderID)
			require.Len(t, w.machines(uid), 1)
			w.removed("a")
		})
	})
	t.Run("the create lands after the delete: it is waited for", func(t *testing.T) {
		everyCloud(t, func(t *testing.T, w *world) {
			uid := string(w.create("a").UID)
			w.cloud.SetDoor(onCreate(cloud.Fault{Late: 25 * time.Second}))
			_, err := w.pass("a")
			require.NoError(t, err)
			require.Empty(t, w.machines(uid), "not yet")
			w.removed("a")
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			require.Empty(t, w.machines(uid), "nor ever")
		})
	})
}

// onCreate lets something go wrong with the first create only.
func onCreate(f cloud.Fault) cloud.Door {
	return func(c cloud.Call) cloud.Fault {
		if c.Op == cloud.OpCreate && c.OpN == 1 {
			return f
		}
		return cloud.Fault{}
	}
}

func TestReconcileDeleteGetNotFound(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		w.create("a")
		require.True(t, w.cloud.Vanish(recordedRef(w.ready("a")))) // by hand
		w.removed("a")
	})
}

func TestReconcileDeleteExists(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		w.ready("a")
		w.delete("a")
		_, err := w.pass("a")
		require.NoError(t, err)
		p := w.get("a")
		require.Equal(t, v1alpha1.ReasonDeleting, reasonOf(p, v1alpha1.ConditionProvisioned))
		require.Equal(t, v1alpha1.PhaseDeleting, p.Status.Phase)
		require.Equal(t, 1, w.cloud.Deletes(uid))
		w.until("a", func() bool { return w.gone("a") })
		require.Empty(t, w.machines(uid))
		require.Equal(t, 1, w.count(cloud.OpDelete), "asked once, polled until gone")
	})
}

func TestReconcileDeleteIsNeverLatched(t *testing.T) {
	for _, class := range []providers.ErrorClass{providers.Permanent, providers.Denied, providers.QuotaExceeded, providers.Throttled, providers.Ambiguous, providers.Transient, providers.Capacity} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t, cloud.Pod())
			w.create("a")
			w.ready("a")
			w.delete("a")
			w.cloud.SetDown(class)
			for range 3 {
				res, err := w.tick("a")
				require.True(t, err != nil || (res.RequeueAfter > 0 && res.RequeueAfter <= quotaRetry), "it comes again soon")
			}
			require.False(t, w.gone("a"))
			if class == providers.Denied || class == providers.Permanent {
				require.Contains(t, messageOf(w.get("a"), v1alpha1.ConditionStalled), v1alpha1.AnnotationAbandon)
			}
			w.cloud.SetDown("")
			w.until("a", func() bool { return w.gone("a") })
			require.Empty(t, w.cloud.All())
		})
	}
}

func TestReconcileDeleteWithCredentialsThatNeverWorked(t *testing.T) {
	w := newWorld(t, cloud.DO())
	w.cloud.SetDown(providers.Denied)
	w.create("a")
	p := w.gives("a", v1alpha1.ReasonAccessDenied)
	require.Empty(t, p.Finalizers, "nothing was ever asked for")
	w.delete("a")
	require.True(t, w.gone("a"))
}

func TestReconcileDeleteFromAnAccountThatLeftTheConfiguration(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	w.ready("a")
	acc := w.r.Providers["cloud"]
	delete(w.r.Providers, "cloud")
	w.delete("a")
	for range 3 {
		_, err := w.tick("a")
		require.NoError(t, err)
	}
	require.Contains(t, messageOf(w.get("a"), v1alpha1.ConditionStalled), `Account "cloud"`)
	require.Len(t, w.cloud.All(), 1)
	w.r.Providers["cloud"] = acc
	w.until("a", func() bool { return w.gone("a") })
	require.Empty(t, w.cloud.All())
}

func TestReconcileDeleteFindsEveryPlace(t *testing.T) {
	w := newWorld(t, cloud.GCE())
	uid := string(w.create("a").UID)
	w.ready("a")
	w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Provider = "other" }) // and deleted before anything moved
	w.removed("a")
	require.Empty(t, w.machines(uid))
}

func TestAbandonLetsGoWithoutTheMachine(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	p := w.create("a")
	w.ready("a")
	w.annotate("a", v1alpha1.AnnotationAbandon, "yes")
	_, err := w.pass("a")
	require.NoError(t, err)
	require.Contains(t, messageOf(w.get("a"), v1alpha1.ConditionStalled), string(p.UID))
	require.True(t, isReady(w.get("a")))

	w.cloud.SetDown(providers.Denied)
	w.delete("a")
	_, err = w.pass("a")
	require.NoError(t, err)
	require.False(t, w.gone("a"), "a wrong value gives nothing away")
	w.annotate("a", v1alpha1.AnnotationAbandon, string(p.UID))
	_, err = w.pass("a")
	require.NoError(t, err)
	require.True(t, w.gone("a"))
	require.Len(t, w.cloud.All(), 1, "left, as asked")
	require.Contains(t, w.events[len(w.events)-1], "Warning Abandoned")
	require.Contains(t, w.events[len(w.events)-1], w.cloud.All()[0].Ref.String())
}

func TestAbandonDoesNothingWhileTheProxyLives(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	p := w.create("a")
	w.ready("a")
	w.annotate("a", v1alpha1.AnnotationAbandon, string(p.UID))
	for range 3 {
		_, err := w.tick("a")
		require.NoError(t, err)
	}
	require.True(t, isReady(w.get("a")))
	require.True(t, controllerutil.ContainsFinalizer(w.get("a"), v1alpha1.Finalizer))
}

func TestPausedStopsEverythingVisibly(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	uid := string(w.create("a").UID)
	w.ready("a")
	w.annotate("a", v1alpha1.AnnotationPaused, "true")
	w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Provider = "other" })
	w.delete("a")
	calls := len(w.cloud.Calls())
	for range 5 {
		_, err := w.tick("a")
		require.NoError(t, err)
	}
	p := w.get("a")
	require.Equal(t, v1alpha1.ReasonPaused, reasonOf(p, v1alpha1.ConditionStalled))
	require.True(t, isReady(p), "what runs goes on")
	require.Len(t, w.cloud.Calls(), calls)
	require.Len(t, w.machines(uid), 1)
	w.edit("a", func(p *v1alpha1.Proxy) { delete(p.Annotations, v1alpha1.AnnotationPaused) })
	w.until("a", func() bool { return w.gone("a") })
	require.Empty(t, w.machines(uid))
}

func TestAWrongAnnotationSaysWhatToWrite(t *testing.T) {
	for key, want := range map[string]string{
		v1alpha1.AnnotationPaused:             `write "true"`,
		v1alpha1.AnnotationReplaceRequestedAt: "RFC 3339",
		v1alpha1.AnnotationAbandon:            "UID",
		"crawl.proxy-operator.io/pausd":       v1alpha1.AnnotationPaused,
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t, cloud.Pod())
			w.create("a", func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{key: "yes, please"} })
			p := w.ready("a")
			require.Equal(t, v1alpha1.ReasonInvalidAnnotation, reasonOf(p, v1alpha1.ConditionStalled))
			require.Contains(t, messageOf(p, v1alpha1.ConditionStalled), key)
			require.Contains(t, messageOf(p, v1alpha1.ConditionStalled), want)
			w.edit("a", func(p *v1alpha1.Proxy) { delete(p.Annotations, key) })
			_, err := w.pass("a")
			require.NoError(t, err)
			require.Empty(t, reasonOf(w.get("a"), v1alpha1.ConditionStalled))
		})
	}
}

func TestReplaceRequestedAtReplacesOnce(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	before := w.ready("a")
	at := w.clock.Now().Add(time.Minute)
	w.annotate("a", v1alpha1.AnnotationReplaceRequestedAt, at.Format(time.RFC3339))
	res, err := w.pass("a")
	require.NoError(t, err)
	require.LessOrEqual(t, res.RequeueAfter, time.Minute, "a time to come is a plan")
	require.True(t, isReady(w.get("a")))
	w.until("a", func() bool { return isReady(w.get("a")) && w.get("a").Status.ProviderID != before.Status.ProviderID })
	require.False(t, w.clock.Now().Before(at))
	after := w.get("a").Status.ProviderID
	for range 10 {
		_, err := w.tick("a")
		require.NoError(t, err)
	}
	w.edit("a", func(p *v1alpha1.Proxy) { delete(p.Annotations, v1alpha1.AnnotationReplaceRequestedAt) })
	_, err = w.pass("a")
	require.NoError(t, err)
	require.Equal(t, after, w.get("a").Status.ProviderID)
	require.Len(t, w.cloud.All(), 1)
}

func TestReconcileExternal(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a", func(p *v1alpha1.Proxy) {
		p.Spec = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: "2001:db8::1", Port: 8080}}
	})
	res, err := w.pass("a")
	require.NoError(t, err)
	require.Zero(t, res.RequeueAfter)
	p := w.get("a")
	require.Equal(t, "2001:db8::1", p.Status.IP)
	require.EqualValues(t, 8080, p.Status.Port)
	require.Equal(t, v1alpha1.ReasonExternalEndpoint, reasonOf(p, v1alpha1.ConditionProvisioned))
	require.True(t, isReady(p))
	require.Equal(t, v1alpha1.PhaseReady, p.Status.Phase)
	require.Empty(t, p.Finalizers)
	require.Empty(t, w.cloud.Calls(), "no provider calls ever")
	w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Endpoint.Host = "proxy.example.com" })
	_, err = w.pass("a")
	require.NoError(t, err)
	require.Equal(t, "proxy.example.com", w.get("a").Status.IP)
	w.delete("a")
	require.True(t, w.gone("a"))

	t.Run("a missing credentials Secret is told", func(t *testing.T) {
		w.create("b", func(p *v1alpha1.Proxy) {
			p.Spec = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{
				Host: "192.0.2.1", Port: 8080, Auth: &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "login"}},
			}}
		})
		_, err := w.pass("b")
		require.NoError(t, err)
		require.Equal(t, v1alpha1.ReasonAuthError, reasonOf(w.get("b"), v1alpha1.ConditionStalled))
		w.secret("login", map[string]string{"username": "u", "password": "p"})
		_, err = w.pass("b")
		require.NoError(t, err)
		require.Empty(t, reasonOf(w.get("b"), v1alpha1.ConditionStalled))
	})
}

func TestReconcileOfAProxyThatIsNotThere(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	res, err := w.pass("nobody")
	require.NoError(t, err)
	require.Zero(t, res.RequeueAfter)
}

func TestThePassWritesStatusOnceAndOnlyIfItChanged(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	writes := map[string]int{}
	w.hooks.before = func(kind string) error { writes[kind]++; return nil }
	w.ready("a")
	require.Equal(t, map[string]int{"object": 1, "status": 2}, writes, "ledger and finalizer; Provisioning, Created")
	clear(writes)
	w.delete("a")
	w.until("a", func() bool { return w.gone("a") })
	require.Equal(t, map[string]int{"object": 1, "status": 1}, writes, "Deleting; finalizer")
}

func TestAFailedStatusWriteIsReturned(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	w.hooks.before = func(kind string) error {
		if kind == "status" {
			return errCrash
		}
		return nil
	}
	_, err := w.pass("a")
	require.ErrorIs(t, err, errCrash)
	require.Empty(t, w.events, "nothing is told that isn't written")
	w.hooks.before = nil
	w.ready("a")
	require.Len(t, w.cloud.All(), 1)
}

func TestAReadOfOldStatusIsMendedByTheNextPass(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	p := w.ready("a")
	from := p.DeepCopy()
	p.Status = v1alpha1.ProxyStatus{} // a foreign writer
	require.NoError(t, w.api.Status().Patch(w.t.Context(), p, client.MergeFrom(from)))
	w.ready("a")
	require.Equal(t, from.Status.ProviderID, w.get("a").Status.ProviderID)
	require.Len(t, w.cloud.All(), 1)
}

// TestAPassBehindOurOwnWritesWaits guards the promise of two status writes to Ready: a cache that lacks the write of the
// pass before made one more of them for one Proxy in ten.
func TestAPassBehindOurOwnWritesWaits(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	old := w.create("a")
	w.ready("a")
	require.True(t, w.r.memory.behind(old))
	require.False(t, w.r.memory.behind(w.get("a")))
	w.restart()
	require.False(t, w.r.memory.behind(old), "a new process has written nothing")
}

// TestAViewFromBeforeAProxyWasLetGoIsBehind: the cache may still show a Proxy that the write of this process has ended. To
// take the finalizer off once more cost a write for every fourth Proxy.
func TestAViewFromBeforeAProxyWasLetGoIsBehind(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	w.ready("a")
	w.delete("a")
	var old *v1alpha1.Proxy
	w.until("a", func() bool {
		if w.gone("a") {
			return true
		}
		old = w.get("a")
		return false
	})
	require.True(t, w.r.memory.behind(old))
	others := old.DeepCopy()
	others.Finalizers = []string{"example.com/theirs"}
	require.False(t, w.r.memory.behind(others), "another's finalizer holds it: nothing is left to write, and no pass to repeat")
}
