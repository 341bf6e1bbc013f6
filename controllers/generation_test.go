// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// TestThatNothingIsKnownYetIsNoNews: a first pass that has to wait for a list gave the user two Events Provisioning.
func TestThatNothingIsKnownYetIsNoNews(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	base := w.create("a")
	waits := base.DeepCopy()
	verdict{unknown: &cond{metav1.ConditionUnknown, v1alpha1.ReasonProvisioning, messageUnknown}}.apply(waits)
	w.r.publish(t.Context(), base, waits)
	require.Empty(t, w.events)
	asked := waits.DeepCopy()
	under(v1alpha1.ReasonProvisioning, messageProvisioning).apply(asked)
	w.r.publish(t.Context(), waits, asked)
	require.Len(t, w.events, 1)
	require.Contains(t, w.events[0], v1alpha1.ReasonProvisioning)
}

// TestAnOldViewsStatusTellsItsGeneration has the spec edited, and observed by another leader, between the read and the
// status write of a pass. What is written then must not pass for what the newest generation has come to.
func TestAnOldViewsStatusTellsItsGeneration(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	_, err := w.tick("a")
	require.NoError(t, err)
	w.hooks.before = func(kind string) error {
		if p := w.get("a"); kind == "status" && p.Generation == 1 {
			p = w.edit("a", func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"team": "b"} })
			from := p.DeepCopy()
			p.Status.ObservedGeneration = p.Generation
			require.NoError(t, w.api.Status().Patch(t.Context(), p, client.MergeFrom(from)))
		}
		return nil
	}
	w.until("a", func() bool { return w.get("a").Generation == 2 })
	p := w.get("a")
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	require.NotNil(t, ready)
	require.Equal(t, ready.ObservedGeneration, p.Status.ObservedGeneration, "Ready is told beside a generation that it isn't of")
}
