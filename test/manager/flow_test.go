// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// The events that lead to a pass, as docs/architecture.md draws them, one subtest each.
func TestEveryEventLeadsToItsPass(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start()
	cases := map[string]func(*testing.T, *fleet){
		"a Proxy is created":              proxyCreated,
		"a spec is edited":                specEdited,
		"a missing Secret is created":     secretCreated,
		"a key is added to a Secret":      secretKeyAdded,
		"a cloud-init Secret is rotated":  cloudInitRotated,
		"an auth Secret is rotated":       authRotated,
		"a Secret is deleted":             secretDeleted,
		"a Proxy is deleted":              proxyDeleted,
		"a machine dies":                  machineDied,
		"an External Proxy is created":    externalCreated,
		"a replacement is asked for":      replacementRequested,
		"a Proxy is paused and goes on":   pausedAndResumed,
		"an External Proxy gets its auth": externalAuthCreated,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			sub := *f
			sub.t = t
			run(t, &sub)
			f.sensitive = sub.sensitive
		})
	}
}

func proxyCreated(t *testing.T, f *fleet) {
	f.create("created")
	p := f.ready("created")
	require.Equal(t, v1alpha1.PhaseReady, p.Status.Phase)
	require.Contains(t, p.Finalizers, v1alpha1.Finalizer)
	f.processOf(p)
	requireTraffic(t, p, login{})
}

func specEdited(t *testing.T, f *fleet) {
	f.create("edited")
	old := f.ready("edited")
	pid := f.processOf(old)
	f.edit("edited", func(p *v1alpha1.Proxy) { port(3129)(&p.Spec) })
	p := f.replaced(old)
	require.NotEqual(t, pid, f.processOf(p))
	requireTraffic(t, p, login{})
}

func secretCreated(t *testing.T, f *fleet) {
	f.create("waits", cloudInitFrom("late"))
	p := f.await("waits", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionReady, "False", v1alpha1.ReasonCloudInitError)
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonCloudInitError)
	})
	message := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled).Message
	require.Contains(t, message, `"late"`)
	require.Contains(t, message, `"user-data"`)
	f.userData("late", "#cloud-config\n# late-user-data")
	f.byWatch(func() { p = f.ready("waits") })
	require.Nil(t, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled))
	requireTraffic(t, p, login{})
}

func secretKeyAdded(t *testing.T, f *fleet) {
	f.secret("no-key", corev1.SecretTypeOpaque, map[string]string{"other": "other-content"})
	f.create("waits-for-key", cloudInitFrom("no-key"))
	p := f.await("waits-for-key", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionReady, "False", v1alpha1.ReasonCloudInitError)
	})
	require.Contains(t, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady).Message, `"no-key" has no key "user-data"`)
	f.userData("no-key", "#cloud-config\n# added-user-data")
	f.byWatch(func() { f.ready("waits-for-key") })
}

func cloudInitRotated(_ *testing.T, f *fleet) {
	f.userData("shared", "#cloud-config\n# shared-user-data-1")
	f.userData("aside", "#cloud-config\n# aside-user-data")
	f.create("uses-1", cloudInitFrom("shared"))
	f.create("uses-2", cloudInitFrom("shared"))
	f.create("uses-other", cloudInitFrom("aside"))
	f.create("uses-none")
	first, second := f.ready("uses-1"), f.ready("uses-2")
	other, none := f.ready("uses-other"), f.ready("uses-none")
	f.userData("shared", "#cloud-config\n# shared-user-data-2")
	f.byWatch(func() {
		f.replaced(first)
		f.replaced(second)
	})
	f.requireUntouched(other, none)
}

func authRotated(t *testing.T, f *fleet) {
	before, after := login{"crawler", "first-password-7Yt"}, login{"crawler", "second-password-8Zu"}
	f.credentials("login", before)
	f.create("asks", authFrom("login"))
	f.create("asks-nobody")
	old, open := f.ready("asks"), f.ready("asks-nobody")
	requireTraffic(t, old, before)
	requireRefused(t, old, login{})
	requireRefused(t, old, after)
	f.credentials("login", after)
	p := old
	f.byWatch(func() { p = f.replaced(old) })
	requireTraffic(t, p, after)
	requireRefused(t, p, before)
	requireRefused(t, p, login{})
	f.requireUntouched(open)
}

func secretDeleted(t *testing.T, f *fleet) {
	known := login{"crawler", "lasting-password-9Av"}
	f.userData("boot", "#cloud-config\n# boot-user-data")
	f.credentials("lasting", known)
	f.create("loses-boot", cloudInitFrom("boot"))
	f.create("loses-login", authFrom("lasting"))
	old := map[string]*v1alpha1.Proxy{"loses-boot": f.ready("loses-boot"), "loses-login": f.ready("loses-login")}
	pids := map[string]int{"loses-boot": f.processOf(old["loses-boot"]), "loses-login": f.processOf(old["loses-login"])}
	f.deleteSecret("boot")
	f.deleteSecret("lasting")
	for name, reason := range map[string]string{"loses-boot": v1alpha1.ReasonCloudInitError, "loses-login": v1alpha1.ReasonAuthError} {
		p := old[name]
		f.byWatch(func() {
			p = f.await(name, func(c *assert.CollectT, p *v1alpha1.Proxy) {
				requireCondition(c, p, v1alpha1.ConditionStalled, "True", reason)
			})
		})
		requireCondition(t, p, v1alpha1.ConditionReady, "True", v1alpha1.ReasonCreated)
		require.Equal(t, old[name].Status.ProviderID, p.Status.ProviderID)
		require.Equal(t, pids[name], f.processOf(p))
	}
	requireTraffic(t, old["loses-boot"], login{})
	requireTraffic(t, old["loses-login"], known)
	f.userData("boot", "#cloud-config\n# boot-user-data")
	p := f.await("loses-boot", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		require.Nil(c, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled))
	})
	require.Equal(t, old["loses-boot"].Status.ProviderID, p.Status.ProviderID, "the same content again replaces nothing")
}

func proxyDeleted(t *testing.T, f *fleet) {
	f.create("deleted")
	p := f.ready("deleted")
	f.delete("deleted")
	f.awaitGone("deleted", p.UID)
	f.awaitNoProcess(p.Status.Instance.Name)
	_, err := visit(t.Context(), p, login{}, "http")
	require.Error(t, err, "nobody serves at its address")
}

func machineDied(t *testing.T, f *fleet) {
	f.create("dies")
	old := f.ready("dies")
	require.NoError(t, killPID(f.processOf(old)))
	f.awaitNoProcess(old.Status.Instance.Name)
	// What a provider says is polled; this asks for a look now.
	f.edit("dies", annotate(v1alpha1.AnnotationReconcileRequestedAt, "now"))
	p := f.replaced(old)
	requireTraffic(t, p, login{})
}

func replacementRequested(t *testing.T, f *fleet) {
	f.create("renewed")
	f.create("not-renewed")
	old, other := f.ready("renewed"), f.ready("not-renewed")
	f.edit("renewed", annotate(v1alpha1.AnnotationReplaceRequestedAt, soon()))
	p := f.replaced(old)
	requireTraffic(t, p, login{})
	f.edit("renewed", annotate(v1alpha1.AnnotationReconcileRequestedAt, "again"))
	f.seen("renewed")
	require.Equal(t, p.Status.ProviderID, f.read("renewed").Status.ProviderID, "a request is met once")
	f.requireUntouched(other)
}

func pausedAndResumed(t *testing.T, f *fleet) {
	f.create("paused")
	old := f.ready("paused")
	f.edit("paused", annotate(v1alpha1.AnnotationPaused, "true"))
	f.await("paused", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonPaused)
	})
	f.edit("paused", func(p *v1alpha1.Proxy) { port(3130)(&p.Spec) })
	p := f.await("paused", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		require.Equal(c, p.Generation, p.Status.ObservedGeneration)
	})
	require.Equal(t, old.Status.ProviderID, p.Status.ProviderID)
	f.processOf(old)
	f.edit("paused", func(p *v1alpha1.Proxy) { delete(p.Annotations, v1alpha1.AnnotationPaused) })
	p = f.replaced(old)
	require.Nil(t, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled))
}

func external(host string, port int32, secret string) func(*v1alpha1.ProxySpec) {
	return func(s *v1alpha1.ProxySpec) {
		*s = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: host, Port: port}}
		if secret != "" {
			s.Endpoint.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: secret}}
		}
	}
}

func externalCreated(t *testing.T, f *fleet) {
	f.create("served")
	served := f.ready("served")
	f.create("external", external(served.Status.IP, served.Status.Port, ""))
	p := f.ready("external")
	requireCondition(t, p, v1alpha1.ConditionReady, "True", v1alpha1.ReasonExternalEndpoint)
	require.Empty(t, p.Finalizers)
	require.Empty(t, p.Status.ProviderID)
	requireTraffic(t, p, login{})
	f.delete("external")
	f.awaitGone("external", p.UID)
	f.processOf(served)
}

func externalAuthCreated(t *testing.T, f *fleet) {
	f.create("external-auth", external("127.0.0.1", 9, "external-login"))
	p := f.await("external-auth", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonAuthError)
	})
	require.Contains(t, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled).Message, `"external-login"`)
	f.credentials("external-login", login{"crawler", "external-password-1Bw"})
	f.await("external-auth", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		require.Nil(c, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled))
		requireCondition(c, p, v1alpha1.ConditionReady, "False", v1alpha1.ReasonConnectRefused) // nobody listens there
	})
}
