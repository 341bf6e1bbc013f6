// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// reasons lists those of a Proxy's Events in their order; an Event that was counted up stands as often as it was seen.
func (f *fleet) reasons(p *v1alpha1.Proxy) []string {
	f.t.Helper()
	var all []string
	for _, e := range f.events(f.t.Context(), p.UID) {
		n := int32(1)
		if e.Series != nil {
			n = e.Series.Count
		}
		for range n {
			all = append(all, e.Reason)
		}
	}
	return all
}

// awaitReasons waits until the Events of a Proxy are exactly these.
func (f *fleet) awaitReasons(p *v1alpha1.Proxy, want ...string) {
	f.t.Helper()
	eventually(f.t, func(c *assert.CollectT) { require.Equal(c, want, f.reasons(p)) })
}

func TestEventsTellOfTransitionsAndOfNothingElse(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start()
	f.create("told")
	f.create("told-of-secret", cloudInitFrom("late"))
	old := f.ready("told")
	f.awaitReasons(old, v1alpha1.ReasonProvisioning, v1alpha1.ReasonCreated, v1alpha1.ReasonHealthy)
	f.edit("told", func(p *v1alpha1.Proxy) { port(3190)(&p.Spec) })
	p := f.replaced(old)
	life := []string{
		v1alpha1.ReasonProvisioning, v1alpha1.ReasonCreated, v1alpha1.ReasonHealthy, v1alpha1.ReasonReplacing,
		v1alpha1.ReasonProvisioning, v1alpha1.ReasonCreated, v1alpha1.ReasonHealthy,
	}
	f.awaitReasons(p, life...)

	for _, value := range []string{"1", "2", "3"} { // passes that change nothing
		f.edit("told", annotate(v1alpha1.AnnotationReconcileRequestedAt, value))
	}
	f.seen("told")
	f.awaitReasons(p, append(life, v1alpha1.ReasonInvalidAnnotation)...)

	waits := f.await("told-of-secret", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonCloudInitError)
	})
	f.awaitReasons(waits, v1alpha1.ReasonCloudInitError)
	e := f.events(t.Context(), waits.UID)[0]
	require.Equal(t, corev1.EventTypeWarning, e.Type)
	require.Contains(t, e.Note, `"late"`)
	f.userData("late", "#cloud-config\n# told-user-data")
	f.ready("told-of-secret")
	f.awaitReasons(waits, v1alpha1.ReasonCloudInitError, v1alpha1.ReasonProvisioning, v1alpha1.ReasonCreated, v1alpha1.ReasonHealthy)

	f.delete("told")
	f.awaitGone("told", p.UID)
	f.awaitReasons(p, append(life, v1alpha1.ReasonInvalidAnnotation, v1alpha1.ReasonDeleting)...)
	for _, e := range f.events(t.Context(), p.UID) {
		want := corev1.EventTypeNormal
		if e.Reason == v1alpha1.ReasonInvalidAnnotation {
			want = corev1.EventTypeWarning
		}
		require.Equal(t, want, e.Type, e.Reason)
		require.Equal(t, "proxy-operator", e.ReportingController)
		require.NotEmpty(t, e.Note)
		require.Equal(t, "Proxy", e.Regarding.Kind)
	}
}
