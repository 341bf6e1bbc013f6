// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// apimachinery dates a condition by the wall's clock, and again for each change within one pass: a pass that took its own
// change back wrote status, unless all happened in one second. The simulation saw it as equal plans with unequal traces.
func TestTheTimeOfAConditionWasTheWalls(t *testing.T) {
	then := metav1.NewTime(time.Date(2026, 8, 7, 12, 0, 0, 0, time.UTC))
	now := then.Add(90*time.Second + 300*time.Millisecond)
	p := &v1alpha1.Proxy{}
	set(p, v1alpha1.ConditionReady, cond{metav1.ConditionTrue, v1alpha1.ReasonCreated, ""})
	set(p, v1alpha1.ConditionHealthy, cond{metav1.ConditionTrue, v1alpha1.ReasonProbing, ""})
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].LastTransitionTime = then
	}
	base := p.DeepCopy()

	set(p, v1alpha1.ConditionReady, cond{metav1.ConditionFalse, v1alpha1.ReasonReplacing, ""})
	set(p, v1alpha1.ConditionReady, cond{metav1.ConditionTrue, v1alpha1.ReasonCreated, ""})
	dateConditions(base.Status.Conditions, p.Status.Conditions, now)
	require.Equal(t, base.Status, p.Status, "taken back is not changed")

	set(p, v1alpha1.ConditionHealthy, cond{metav1.ConditionFalse, v1alpha1.ReasonProbing, ""})
	set(p, v1alpha1.ConditionStalled, cond{metav1.ConditionTrue, v1alpha1.ReasonPermanentError, ""})
	dateConditions(base.Status.Conditions, p.Status.Conditions, now)
	at := then.Add(90 * time.Second)
	require.Equal(t, []time.Time{then.Time, at, at}, []time.Time{
		p.Status.Conditions[0].LastTransitionTime.Time,
		p.Status.Conditions[1].LastTransitionTime.Time,
		p.Status.Conditions[2].LastTransitionTime.Time,
	}, "kept; turned; new")
}
