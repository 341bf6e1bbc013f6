// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// What users do to objects, by mistake or with tools.
func TestNoMistakeOfAUserDoublesAMachine(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start()
	cases := map[string]func(*testing.T, *fleet){
		"an unknown provider":                          unknownProvider,
		"kubectl replace without finalizer and ledger": replacedObject,
		"a copy of an object with its ledger":          copiedObject,
		"deleted while it is created":                  deletedAtOnce,
		"the same name deleted and created again":      sameNameAgain,
		"two edits before the first is acted on":       editedTwice,
		"a value that the provider can't act on":       unsupportedValue,
		"a status that somebody wiped":                 wipedStatus,
		"a machine that was removed behind our back":   removedMachine,
		"a Proxy that is created with our annotation":  forgedLedger,
		"an edit that is taken back at once":           takenBack,
		"deleted while its Secret is missing":          deletedWithoutSecret,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			sub := *f
			sub.t = t
			run(t, &sub)
			f.sensitive = sub.sensitive
		})
	}
	var names []string
	var list v1alpha1.ProxyList
	require.NoError(t, cluster.admin.List(t.Context(), &list, client.InNamespace(f.ns)))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	f.settled(names...)
}

func unknownProvider(t *testing.T, f *fleet) {
	f.create("unknown", func(s *v1alpha1.ProxySpec) { s.Provider = "gcp-eu" })
	p := f.await("unknown", func(c *assert.CollectT, p *v1alpha1.Proxy) { require.Equal(c, v1alpha1.PhaseFailed, p.Status.Phase) })
	requireCondition(t, p, v1alpha1.ConditionReady, "False", v1alpha1.ReasonPermanentError)
	message := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled).Message
	require.Contains(t, message, `"gcp-eu"`)
	require.Contains(t, message, "known accounts: local")
	f.edit("unknown", func(p *v1alpha1.Proxy) { p.Spec.Provider = "local" })
	f.ready("unknown")
}

func replacedObject(t *testing.T, f *fleet) {
	f.create("replaced")
	old := f.ready("replaced")
	pid := f.processOf(old)
	bare := proxy(f.ns, "replaced")
	bare.ResourceVersion = f.read("replaced").ResourceVersion
	require.NoError(t, cluster.admin.Update(t.Context(), bare))
	p := f.await("replaced", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		require.Contains(c, p.Finalizers, v1alpha1.Finalizer)
		require.Contains(c, p.Annotations, v1alpha1.AnnotationIntent)
	})
	require.Equal(t, old.Status.ProviderID, p.Status.ProviderID)
	require.Equal(t, pid, f.processOf(p))
}

func copiedObject(t *testing.T, f *fleet) {
	f.create("original")
	original := f.ready("original")
	c := original.DeepCopy()
	c.ObjectMeta = metav1.ObjectMeta{Namespace: f.ns, Name: "copy", Annotations: original.Annotations, Finalizers: original.Finalizers}
	require.NoError(t, cluster.admin.Create(t.Context(), c))
	p := f.ready("copy")
	require.NotEqual(t, original.Status.ProviderID, p.Status.ProviderID)
	require.Equal(t, int64(1), p.Status.Instance.Incarnation)
	f.delete("copy")
	f.awaitGone("copy", p.UID)
	f.processOf(original)
}

func deletedAtOnce(t *testing.T, f *fleet) {
	never := f.create("never")
	f.delete("never")
	f.awaitGone("never", never.UID)
	p := f.create("brief")
	require.Eventually(t, func() bool { return len(f.read("brief").Finalizers) > 0 }, patience, 5*time.Millisecond)
	f.delete("brief")
	f.awaitGone("brief", p.UID)
}

func sameNameAgain(t *testing.T, f *fleet) {
	f.create("again")
	first := f.ready("again")
	f.delete("again")
	f.awaitGone("again", first.UID)
	f.create("again")
	second := f.ready("again")
	require.NotEqual(t, first.Status.ProviderID, second.Status.ProviderID)
	f.awaitNoProcess(first.Status.Instance.Name)
	f.processOf(second)
}

func editedTwice(t *testing.T, f *fleet) {
	f.create("twice")
	old := f.ready("twice")
	f.edit("twice", func(p *v1alpha1.Proxy) { port(3201)(&p.Spec) })
	f.edit("twice", func(p *v1alpha1.Proxy) { port(3202)(&p.Spec) })
	p := f.await("twice", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireReady(c, p)
		require.NotEqual(c, old.Status.ProviderID, p.Status.ProviderID)
		require.NotEqual(c, int32(3201), p.Status.Port)
	})
	f.processOf(p)
	requireTraffic(t, p, login{})
}

func unsupportedValue(t *testing.T, f *fleet) {
	f.create("unsupported")
	old := f.ready("unsupported")
	socks := v1alpha1.ProtocolSOCKS5
	f.edit("unsupported", func(p *v1alpha1.Proxy) { p.Spec.Protocol = &socks })
	p := f.await("unsupported", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonPermanentError)
	})
	require.Contains(t, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled).Message, "spec.protocol")
	require.Equal(t, old.Status.ProviderID, p.Status.ProviderID, "what can't be made again isn't taken down")
	requireTraffic(t, p, login{})
	f.edit("unsupported", func(p *v1alpha1.Proxy) { p.Spec.Protocol = nil })
	f.await("unsupported", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		require.Nil(c, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled))
		require.Equal(c, old.Status.ProviderID, p.Status.ProviderID)
	})
}

func wipedStatus(t *testing.T, f *fleet) {
	f.create("wiped")
	old := f.ready("wiped")
	bare := f.read("wiped")
	bare.Status = v1alpha1.ProxyStatus{}
	require.NoError(t, cluster.admin.Status().Update(t.Context(), bare))
	p := f.ready("wiped")
	require.Equal(t, old.Status.ProviderID, p.Status.ProviderID)
	require.Equal(t, old.Status.Instance, p.Status.Instance)
}

func removedMachine(t *testing.T, f *fleet) {
	f.create("robbed")
	old := f.ready("robbed")
	require.NoError(t, killPID(f.processOf(old)))
	f.awaitNoProcess(old.Status.Instance.Name)
	f.removeFolder(old.Status.Instance.Name)
	f.edit("robbed", annotate(v1alpha1.AnnotationReconcileRequestedAt, "now"))
	p := f.replaced(old)
	f.processOf(p)
}

func forgedLedger(t *testing.T, f *fleet) {
	f.create("victim")
	p := proxy(f.ns, "forged")
	annotate(v1alpha1.AnnotationIntent, `{"uid":"`+string(f.ready("victim").UID)+`","incarnation":7,"hash":"v1:0","account":"local","at":"2026-01-01T00:00:00Z"}`)(p)
	require.NoError(t, cluster.admin.Create(t.Context(), p))
	require.Equal(t, int64(1), f.ready("forged").Status.Instance.Incarnation)
}

func takenBack(t *testing.T, f *fleet) {
	f.create("back")
	f.ready("back")
	f.edit("back", func(p *v1alpha1.Proxy) { port(3203)(&p.Spec) })
	f.edit("back", func(p *v1alpha1.Proxy) { p.Spec.Port = nil })
	p := f.ready("back")
	require.Equal(t, v1alpha1.DefaultPort, p.Status.Port)
	f.processOf(p)
}

func deletedWithoutSecret(_ *testing.T, f *fleet) {
	f.create("without", cloudInitFrom("never"))
	p := f.await("without", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonCloudInitError)
	})
	f.delete("without")
	f.awaitGone("without", p.UID)
}
