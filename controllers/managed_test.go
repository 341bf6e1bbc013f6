// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// everyCloud runs a test on each kind of cloud.
func everyCloud(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, p := range cloud.Profiles() {
		t.Run(p.Name, func(t *testing.T) { test(t, newWorld(t, p)) })
	}
}

// The tests below are named after the branches of the drawing of reconcileManaged in docs/architecture.md.

func TestReconcileManagedNoFinalizer(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	w.cloud.SetDoor(func(c cloud.Call) cloud.Fault {
		if c.Op == cloud.OpCreate {
			p := w.get("a")
			require.True(t, controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer), "the finalizer precedes the create")
			require.NotNil(t, readIntent(p), "and so does the ledger")
		}
		return cloud.Fault{}
	})
	w.ready("a")
}

func TestReconcileManagedPermanentFailureLatch(t *testing.T) {
	refusing := func(t *testing.T) *world {
		w := newWorld(t, cloud.Pod())
		w.create("a", withUserData)
		w.secret("boot", map[string]string{"user-data": "#cloud-config"})
		w.cloud.SetDoor(onlyCreatesFail(providers.Permanent))
		p := w.gives("a", v1alpha1.ReasonPermanentError)
		require.Equal(t, v1alpha1.PhaseFailed, p.Status.Phase)
		require.Equal(t, v1alpha1.ReasonPermanentError, reasonOf(p, v1alpha1.ConditionStalled))
		require.Contains(t, messageOf(p, v1alpha1.ConditionReady), "ModelPermanent")
		require.NotContains(t, messageOf(p, v1alpha1.ConditionReady), "request id")
		return w
	}
	t.Run("it is silent while nothing changes", func(t *testing.T) {
		w := refusing(t)
		before, version := w.count(cloud.OpCreate), w.get("a").ResourceVersion
		w.clock.SetTime(w.clock.Now().Add(29 * time.Minute))
		_, err := w.pass("a")
		require.NoError(t, err)
		require.Equal(t, before, w.count(cloud.OpCreate))
		require.Equal(t, version, w.get("a").ResourceVersion)
	})
	t.Run("it survives a restart of the operator", func(t *testing.T) {
		w := refusing(t)
		before := w.count(cloud.OpCreate)
		w.restart()
		_, err := w.pass("a")
		require.NoError(t, err)
		require.Equal(t, before, w.count(cloud.OpCreate))
	})
	lifts := map[string]func(w *world){
		"a spec edit":         func(w *world) { w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](3129) }) },
		"an edited Secret":    func(w *world) { w.secret("boot", map[string]string{"user-data": "#cloud-config\nx: 1"}) },
		"a reconcile request": func(w *world) { w.annotate("a", v1alpha1.AnnotationReconcileRequestedAt, "now") },
		"half an hour":        func(w *world) { w.clock.SetTime(w.clock.Now().Add(31 * time.Minute)) },
		"a changed account":   func(w *world) { acc := w.r.Providers["cloud"]; acc.Fingerprint = "f2"; w.r.Providers["cloud"] = acc },
		"a restart, half an hour later": func(w *world) {
			w.restart()
			_, err := w.pass("a")
			require.NoError(w.t, err)
			w.clock.SetTime(w.clock.Now().Add(31 * time.Minute))
		},
	}
	for name, lift := range lifts {
		t.Run("it is lifted by "+name, func(t *testing.T) {
			w := refusing(t)
			w.cloud.SetDoor(nil)
			lift(w)
			for range 2 { // the create, and a look
				_, err := w.pass("a")
				require.NoError(t, err)
			}
			require.Len(t, w.machines(string(w.get("a").UID)), 1)
			p := w.ready("a")
			require.Nil(t, p.Status.LastFailure)
			require.Empty(t, reasonOf(p, v1alpha1.ConditionStalled))
		})
	}
}

// onlyCreatesFail answers creates with an error of the class.
func onlyCreatesFail(class providers.ErrorClass) cloud.Door {
	return func(c cloud.Call) cloud.Fault {
		if c.Op == cloud.OpCreate {
			return cloud.Fault{Class: class}
		}
		return cloud.Fault{}
	}
}

func withUserData(p *v1alpha1.Proxy) {
	p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "boot"}}
}

func TestReconcileManagedProviderMissing(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a", func(p *v1alpha1.Proxy) { p.Spec.Provider = "cluod" })
	p := w.gives("a", v1alpha1.ReasonPermanentError)
	require.Equal(t, v1alpha1.PhaseFailed, p.Status.Phase)
	require.Contains(t, messageOf(p, v1alpha1.ConditionReady), `account "cluod" is not in the operator's configuration; known accounts: cloud, other.`)
	require.Empty(t, p.Finalizers, "nothing was made, nothing holds it")
	w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Provider = "cloud" })
	w.ready("a")

	t.Run("a typo takes no running machine down", func(t *testing.T) {
		w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Provider = "cluod" })
		for range 5 {
			_, err := w.tick("a")
			require.NoError(t, err)
		}
		p := w.get("a")
		require.True(t, isReady(p))
		require.Equal(t, v1alpha1.ReasonPermanentError, reasonOf(p, v1alpha1.ConditionStalled))
		require.Len(t, w.machines(string(p.UID)), 1)
	})
	t.Run("an account of other namespaces is refused", func(t *testing.T) {
		acc := w.r.Providers["other"]
		acc.AllowedNamespaces = []string{"crawl"}
		w.r.Providers["other"] = acc
		w.create("b", func(p *v1alpha1.Proxy) { p.Spec.Provider = "other" })
		p := w.gives("b", v1alpha1.ReasonPermanentError)
		require.Contains(t, messageOf(p, v1alpha1.ConditionReady), `may not be used in namespace "`+w.ns+`"`)
		require.Zero(t, len(w.machines(string(p.UID))))
	})
	t.Run("an unsupported field is named, and takes no running machine down", func(t *testing.T) {
		gce := newWorld(t, cloud.GCE())
		gce.create("a")
		gce.ready("a")
		gce.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Location = &v1alpha1.Location{Zones: []v1alpha1.Zone{"mars-1"}} })
		_, err := gce.pass("a")
		require.NoError(t, err)
		p := gce.get("a")
		require.True(t, isReady(p))
		require.Contains(t, messageOf(p, v1alpha1.ConditionStalled), "spec.location.zones")
		require.Zero(t, gce.count(cloud.OpDelete))
	})
}

func TestReconcileManagedResolveCloudInit(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a", withUserData)
	p := w.gives("a", v1alpha1.ReasonCloudInitError)
	require.Contains(t, messageOf(p, v1alpha1.ConditionReady), `Secret "boot"`)
	require.Contains(t, messageOf(p, v1alpha1.ConditionReady), `key "user-data"`)

	w.secret("boot", map[string]string{"other": "x"})
	_, err := w.pass("a")
	require.NoError(t, err)
	require.Contains(t, messageOf(w.get("a"), v1alpha1.ConditionReady), `has no key "user-data"`)
	require.Zero(t, w.count(cloud.OpCreate))

	w.secret("boot", map[string]string{"user-data": "#cloud-config"})
	w.ready("a")
	var got string
	for _, c := range w.cloud.Calls() {
		if c.Op == cloud.OpCreate {
			got = c.Request.UserData
		}
	}
	require.Equal(t, "#cloud-config", got)
}

func TestReconcileManagedNoProviderIDCreates(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		_, err := w.pass("a")
		require.NoError(t, err)
		p := w.get("a")
		require.Equal(t, v1alpha1.ReasonProvisioning, reasonOf(p, v1alpha1.ConditionProvisioned))
		require.Equal(t, v1alpha1.PhaseProvisioning, p.Status.Phase)
		require.NotEmpty(t, p.Status.ProviderID)
		p = w.ready("a")
		machines := w.machines(uid)
		require.Len(t, machines, 1)
		i := machines[0]
		require.Equal(t, i.Ref.String(), p.Status.ProviderID)
		require.Equal(t, i.IP, p.Status.IP)
		require.Equal(t, int32(3128), p.Status.Port)
		require.Equal(t, i.Zone, p.Status.Zone)
		require.Equal(t, &v1alpha1.Instance{Incarnation: 1, Name: i.Name, SpecHash: i.Tags.SpecHash}, p.Status.Instance)
		require.Equal(t, v1alpha1.ReasonCreated, reasonOf(p, v1alpha1.ConditionReady))
		require.Equal(t, p.Generation, p.Status.ObservedGeneration)
		require.True(t, i.Tags.Complete())
		require.Equal(t, 1, w.cloud.Creates(uid))
		w.removed("a")
	})
}

func TestReconcileManagedHashDiffersAnnotationEmptyAdopts(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		before := w.ready("a")
		w.edit("a", func(p *v1alpha1.Proxy) { p.Annotations, p.Finalizers = nil, nil }) // kubectl replace
		w.restart()
		w.until("a", func() bool { return readIntent(w.get("a")) != nil })
		p := w.ready("a")
		require.True(t, controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer))
		require.Equal(t, before.Status.ProviderID, p.Status.ProviderID)
		require.Equal(t, 1, w.cloud.Creates(uid))
		require.Zero(t, w.cloud.Deletes(uid))
	})
}

func TestReconcileManagedHashDiffersReplacesInstance(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		before := w.ready("a")
		w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](3129) })
		w.until("a", func() bool { return w.get("a").Status.Phase == v1alpha1.PhaseReplacing })
		require.Equal(t, v1alpha1.ReasonReplacing, reasonOf(w.get("a"), v1alpha1.ConditionReady))
		require.Empty(t, w.get("a").Status.IP)
		w.until("a", func() bool { return isReady(w.get("a")) && w.get("a").Status.Port == 3129 })
		p := w.get("a")
		require.NotEqual(t, before.Status.ProviderID, p.Status.ProviderID)
		require.EqualValues(t, 2, p.Status.Instance.Incarnation)
		require.Len(t, w.machines(uid), 1)
		require.Equal(t, 2, w.cloud.Creates(uid))
		require.Equal(t, 1, w.cloud.Deletes(uid))
		require.Contains(t, w.events, "Normal Replacing The machine is being removed; another one follows. (cause: drift)")
	})
}

func TestReconcileManagedSecretRotationReplacesInstance(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.secret("boot", map[string]string{"user-data": "one"})
	w.create("a", withUserData)
	before := w.ready("a")
	w.secret("boot", map[string]string{"user-data": "two"})
	w.until("a", func() bool { return isReady(w.get("a")) && w.get("a").Status.ProviderID != before.Status.ProviderID })
	require.Len(t, w.machines(string(before.UID)), 1)

	t.Run("a Secret that is gone takes nothing down", func(t *testing.T) {
		running := w.get("a").Status.ProviderID
		s := w.get("a")
		w.secret("boot", nil)
		_, err := w.pass("a")
		require.NoError(t, err)
		p := w.get("a")
		require.True(t, isReady(p))
		require.Equal(t, running, p.Status.ProviderID)
		require.Equal(t, v1alpha1.ReasonCloudInitError, reasonOf(p, v1alpha1.ConditionStalled))
		require.Len(t, w.machines(string(s.UID)), 1)
		w.secret("boot", map[string]string{"user-data": "two"})
		_, err = w.pass("a")
		require.NoError(t, err)
		require.Empty(t, reasonOf(w.get("a"), v1alpha1.ConditionStalled))
		require.Equal(t, running, w.get("a").Status.ProviderID)
	})
}

func TestReconcileManagedEditsThereAndBackAndElsewhere(t *testing.T) {
	everyCloud(t, func(_ *testing.T, w *world) {
		uid := string(w.create("a").UID)
		w.ready("a")
		port := func(n int32) {
			w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To(n) })
			_, _ = w.pass("a")
		}
		port(3129)
		port(3128)
		port(3130) // while what came before is still going on
		w.until("a", func() bool { return isReady(w.get("a")) && w.get("a").Status.Port == 3130 })
		w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Provider = "other" })
		w.until("a", func() bool {
			return isReady(w.get("a")) && recordedRef(w.get("a")).Account == "other"
		})
		w.until("a", func() bool { return len(w.machines(uid)) == 1 })
		w.removed("a")
	})
}

func TestReconcileManagedGetNotFoundCreatesAgain(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		before := w.ready("a")
		require.True(t, w.cloud.Vanish(recordedRef(before)))
		w.until("a", func() bool { return isReady(w.get("a")) && w.get("a").Status.ProviderID != before.Status.ProviderID })
		require.Len(t, w.machines(uid), 1)
		require.Equal(t, 2, w.cloud.Creates(uid))
	})
}

func TestReconcileManagedGetNotFoundForTheLivingChangesNothing(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		before := w.ready("a")
		_, err := w.tick("a") // at rest
		require.NoError(t, err)
		w.cloud.SetDoor(func(c cloud.Call) cloud.Fault {
			if c.Op == cloud.OpGet {
				return cloud.Fault{Class: providers.NotFound}
			}
			return cloud.Fault{}
		})
		for range 10 {
			_, err := w.tick("a")
			require.NoError(t, err)
			require.True(t, isReady(w.get("a")))
		}
		require.Equal(t, before.Status.ProviderID, w.get("a").Status.ProviderID)
		require.Equal(t, 1, w.cloud.Creates(uid))
	})
}

func TestReconcileManagedProvisioningIsPolled(t *testing.T) {
	w := newWorld(t, cloud.DO())
	w.create("a")
	var waits []time.Duration
	for !isReady(w.get("a")) {
		res, err := w.tick("a")
		require.NoError(t, err)
		waits = append(waits, res.RequeueAfter)
	}
	require.Equal(t, driftPoll, waits[len(waits)-1])
	for _, d := range waits[:len(waits)-1] {
		require.GreaterOrEqual(t, d, pollFirst)
		require.LessOrEqual(t, d, pollMax)
	}
}

func TestReconcileManagedRunningIsQuiet(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		w.create("a")
		before := w.ready("a")
		creates, deletes := w.count(cloud.OpCreate), w.count(cloud.OpDelete)
		for range 60 {
			_, err := w.tick("a")
			require.NoError(t, err)
		}
		require.Equal(t, before.ResourceVersion, w.get("a").ResourceVersion, "no write in an hour at rest")
		require.Equal(t, creates, w.count(cloud.OpCreate))
		require.Equal(t, deletes, w.count(cloud.OpDelete))
	})
}

func TestReconcileManagedStoppedAndTerminatedAreDeleted(t *testing.T) {
	for name, end := range map[string]func(*cloud.Cloud, providers.Ref) bool{"stopped": (*cloud.Cloud).Stop, "terminated": (*cloud.Cloud).Terminate} {
		t.Run(name, func(t *testing.T) {
			everyCloud(t, func(t *testing.T, w *world) {
				uid := string(w.create("a").UID)
				before := w.ready("a")
				require.True(t, end(w.cloud, recordedRef(before)))
				w.until("a", func() bool { return !isReady(w.get("a")) })
				w.until("a", func() bool { return isReady(w.get("a")) && w.get("a").Status.ProviderID != before.Status.ProviderID })
				require.Len(t, w.machines(uid), 1)
			})
		})
	}
}

// TestASecretThatTheCacheLacksIsReadLive: a Secret and its Proxy come in one kubectl apply, and the Proxy is seen first.
func TestASecretThatTheCacheLacksIsReadLive(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.secret("boot", map[string]string{"user-data": "#cloud-config"})
	empty := fake.NewClientBuilder().WithScheme(scheme).Build()
	w.r.Secrets = &Secrets{Metadata: empty, Live: w.api}
	w.create("a", withUserData)
	w.ready("a")
	require.NotContains(t, strings.Join(w.events, "\n"), v1alpha1.ReasonCloudInitError)
}
