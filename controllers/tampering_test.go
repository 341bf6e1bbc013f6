// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// The tests below come from a hostile tester: what people, other operators and other clocks write on a Proxy.

func TestACrashInTheMiddleOfADeleteIsFinished(t *testing.T) {
	everyCloud(t, func(t *testing.T, w *world) {
		uid := string(w.create("a").UID)
		w.ready("a")
		w.delete("a")
		_, err := w.pass("a")
		require.NoError(t, err)
		w.restart()
		_, err = w.tick("a")
		require.NoError(t, err)
		require.Equal(t, 2, w.count(cloud.OpDelete), "the new process tells the machine once more: the old one may have died half way")
		w.until("a", func() bool { return w.gone("a") })
		require.Empty(t, w.machines(uid))
	})
}

func TestAProviderIDOfAnotherProxyDeletesNothingOfIt(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	victim := w.create("victim")
	w.ready("victim")
	w.create("a")
	w.ready("a")
	p := w.get("a")
	from := p.DeepCopy()
	p.Status.ProviderID = w.get("victim").Status.ProviderID
	require.NoError(t, w.api.Status().Patch(t.Context(), p, client.MergeFrom(from)))
	w.removed("a")
	require.Len(t, w.machines(string(victim.UID)), 1)
	require.Zero(t, w.cloud.Deletes(string(victim.UID)))
}

func TestAProxyOfAnotherInstallationIsLeftAlone(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	uid := string(w.create("a").UID)
	w.ready("a")
	w.restart()
	w.r.Installation = "another"
	w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](3129) })
	before, calls := w.get("a"), len(w.cloud.Calls())
	for range 5 {
		res, err := w.pass("a")
		require.NoError(t, err)
		require.Zero(t, res)
	}
	require.Equal(t, before.ResourceVersion, w.get("a").ResourceVersion, "two writers of one status are a hot loop")
	require.Len(t, w.cloud.Calls(), calls)
	told := 0
	for _, e := range w.events {
		if strings.HasPrefix(e, "Warning "+v1alpha1.ReasonOtherInstallation) {
			told++
		}
	}
	require.Equal(t, 1, told, "once")

	w.delete("a")
	_, err := w.pass("a")
	require.NoError(t, err)
	require.False(t, w.gone("a"), "its own operator removes it")
	w.r.Installation = "inst"
	w.until("a", func() bool { return w.gone("a") })
	require.Empty(t, w.machines(uid))
}

func TestAnAccountThatLeftTheConfigurationTakesNoServingProxyOutOfUse(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	before := w.ready("a")
	acc := w.r.Providers["cloud"]
	w.restart()
	delete(w.r.Providers, "cloud")
	for range 3 {
		_, err := w.tick("a")
		require.NoError(t, err)
	}
	p := w.get("a")
	require.True(t, isReady(p), "nobody can tell what became of it; what was known stays")
	require.Equal(t, before.Status.IP, p.Status.IP)
	require.Equal(t, v1alpha1.ReasonPermanentError, reasonOf(p, v1alpha1.ConditionStalled))
	require.Contains(t, messageOf(p, v1alpha1.ConditionStalled), `Account "cloud"`)
	w.r.Providers["cloud"] = acc
	_, err := w.pass("a")
	require.NoError(t, err)
	require.Empty(t, reasonOf(w.get("a"), v1alpha1.ConditionStalled))
	require.Equal(t, before.Status.ProviderID, w.get("a").Status.ProviderID)
}

func TestAnIntentFromTheFutureIsClosedByTheClockAllTheSame(t *testing.T) {
	w := newWorld(t, cloud.DO())
	w.create("a")
	w.ready("a")
	in := *readIntent(w.get("a"))
	in.At = in.At.AddDate(70, 0, 0)
	w.edit("a", func(p *v1alpha1.Proxy) { require.NoError(t, in.write(p)) })
	w.restart()
	start := w.clock.Now()
	w.removed("a")
	require.Less(t, w.clock.Since(start), 10*time.Minute)
}

func TestAnIncarnationBeyondAllReasonIsNotCountedOnFrom(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	w.ready("a")
	in := *readIntent(w.get("a"))
	in.Incarnation = 1<<63 - 1
	w.edit("a", func(p *v1alpha1.Proxy) {
		require.NoError(t, in.write(p))
		p.Spec.Port = ptr.To[int32](3129)
	})
	w.until("a", func() bool { return isReady(w.get("a")) && w.get("a").Status.Port == 3129 })
	require.EqualValues(t, 2, w.get("a").Status.Instance.Incarnation)

	p := w.get("a")
	from := p.DeepCopy()
	p.Status.Instance.Incarnation = 1<<63 - 1
	require.Error(t, w.api.Status().Patch(t.Context(), p, client.MergeFrom(from)), "the API server refuses it in status")
}

func TestALedgerThatCannotBeWrittenIsTold(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	w.hooks.before = func(kind string) error {
		if kind == "object" {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Proxy"}, "a", field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", 262144)})
		}
		return nil
	}
	_, err := w.pass("a")
	require.Error(t, err, "the queue backs off")
	p := w.get("a")
	require.Equal(t, v1alpha1.ReasonLedgerError, reasonOf(p, v1alpha1.ConditionStalled))
	require.Contains(t, messageOf(p, v1alpha1.ConditionStalled), "annotations")
	require.Zero(t, w.count(cloud.OpCreate))
	w.hooks.before = nil
	require.Empty(t, reasonOf(w.ready("a"), v1alpha1.ConditionStalled))
}

// TestAProxyThatIsDeletedWhileItsFinalizerArrivesLeavesNoMachine: the API server deletes an object that had no finalizer when
// it looked, though ours is on it by then. A machine was left, once in five runs on a busy machine.
func TestAProxyThatIsDeletedWhileItsFinalizerArrivesLeavesNoMachine(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	p := w.create("px")
	w.hooks.after = func(kind string) error {
		if kind != "object" {
			return nil
		}
		w.hooks.after = nil
		w.edit("px", func(p *v1alpha1.Proxy) { p.Finalizers = nil })
		w.delete("px")
		return nil
	}
	_, err := w.pass("px")
	require.NoError(t, err)
	require.True(t, w.gone("px"))
	require.Len(t, w.machines(string(p.UID)), 1, "it was asked for in that pass")
	for range 200 {
		res, err := w.tick("px")
		require.NoError(t, err)
		if res.RequeueAfter == 0 {
			break
		}
	}
	require.Empty(t, w.machines(string(p.UID)))
	require.Nil(t, w.r.memory.stray(w.key("px")), "and then it is forgotten")
}

// TestAForgedRecordIsNobodysMachine: somebody may make machines in another namespace, knows the UID, and works out the name
// that goes with it.
func TestAForgedRecordIsNobodysMachine(t *testing.T) {
	for why, forge := range map[string]func(*providers.Tags){
		"with the record of another namespace":          func(t *providers.Tags) { t.Namespace = "evil" },
		"with the record of another name":               func(t *providers.Tags) { t.Name = "whatever" },
		"with an incarnation after which there is none": func(t *providers.Tags) { t.Incarnation = maxIncarnation },
	} {
		t.Run(why, func(t *testing.T) {
			w := newWorld(t, cloud.Pod())
			p := w.create("a")
			ours := recordedRef(w.ready("a"))
			tags := w.machines(string(p.UID))[0].Tags
			tags.Incarnation = 7
			forge(&tags)
			key := providers.Key{InstallationID: tags.Installation, ProxyUID: tags.OwnerUID, Incarnation: tags.Incarnation, Account: "cloud"}
			planted := w.cloud.Plant("cloud", "", key.Name(), tags)
			for range 5 {
				_, err := w.tick("a")
				require.NoError(t, err)
			}
			require.Equal(t, ours, recordedRef(w.get("a")), "it isn't adopted")
			require.True(t, w.cloud.Exists(ours), "nor is ours ended for it")
			w.delete("a")
			w.until("a", func() bool { return w.gone("a") })
			require.False(t, w.cloud.Exists(ours))
			require.True(t, w.cloud.Exists(planted), "whose machine that is, the collector finds out")
		})
	}
}

// TestWhoMayMakePodsBesideAProxyCanTakeItsPlaceUntilTheNextReplacement holds what docs/providers/kubernetes.md says of the one
// forgery that isn't told apart: a record that fits in everything, made in the Proxy's own namespace.
func TestWhoMayMakePodsBesideAProxyCanTakeItsPlaceUntilTheNextReplacement(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	p := w.create("a")
	other := w.create("b")
	ours := recordedRef(w.ready("a"))
	w.ready("b")
	tags := w.machines(string(p.UID))[0].Tags
	tags.Incarnation = 7
	key := providers.Key{InstallationID: tags.Installation, ProxyUID: tags.OwnerUID, Incarnation: tags.Incarnation, Account: "cloud"}
	forged := w.cloud.Plant("cloud", "", key.Name(), tags)
	w.until("a", func() bool { return recordedRef(w.get("a")) == forged && !w.cloud.Exists(ours) })
	require.Len(t, w.machines(string(other.UID)), 1, "others have nothing to do with it")

	w.clock.SetTime(w.clock.Now().Add(time.Second))
	w.annotate("a", v1alpha1.AnnotationReplaceRequestedAt, w.clock.Now().UTC().Format(time.RFC3339))
	w.until("a", func() bool { return isReady(w.get("a")) && recordedRef(w.get("a")) != forged })
	require.False(t, w.cloud.Exists(forged), "it goes as any machine does")
	require.EqualValues(t, 8, w.get("a").Status.Instance.Incarnation)
	require.Len(t, w.machines(string(p.UID)), 1)
	w.removed("a")
}
