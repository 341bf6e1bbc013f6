// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// unseen completes the verdict of a pass whose look at the cloud failed with what this process's probes say of the machine
// that status tells of: they don't go through the account, and an outage of its API may last. What is known of the machine
// itself stays as it is. Nothing is done about an ill one; that takes a look.
func (r *ProxyReconciler) unseen(p *v1alpha1.Proxy, v verdict) verdict {
	was := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned)
	if r.Health == nil || was == nil || was.Reason != v1alpha1.ReasonCreated || p.Status.Instance == nil || !p.DeletionTimestamp.IsZero() {
		return v
	}
	incarnation := p.Status.Instance.Incarnation
	if known, ok := r.Health.Verdict(string(p.UID)); !ok || known.Incarnation != incarnation || known.Hearsay {
		return v
	}
	vitals := Vitals{Probed: true}
	r.heard(p, &vitals, incarnation)
	before := reasonAt(p, v1alpha1.ConditionHealthy)
	v.provisioned = &cond{was.Status, was.Reason, was.Message}
	v = vitals.weigh(v)
	for _, told := range []struct {
		kind string
		is   *cond
	}{{v1alpha1.ConditionReconciling, v.reconciling}, {v1alpha1.ConditionStalled, v.stalled}} { // in this order: conditions are a list
		if v.leave && reasonAt(p, told.kind) == before { // it told of what is known no more
			whileTrue(p, told.kind, told.is)
		}
	}
	return v
}
