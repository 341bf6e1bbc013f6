// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// publish tells log and Events of every condition that changed, once the change is written. The reason of an Event is the
// condition's.
func (r *ProxyReconciler) publish(ctx context.Context, base, p *v1alpha1.Proxy) {
	calls := r.memory.of(p)
	detail := calls.Detail
	calls.Detail = ""
	for _, c := range news(base, p) {
		log.FromContext(ctx).Info(c.Message, "condition", c.Type, "status", c.Status, "reason", c.Reason, "detail", detail)
		kind, note := corev1.EventTypeNormal, c.Message
		if c.Type == v1alpha1.ConditionStalled || !calm(c.Reason) || tellsOfProblem(c) {
			kind = corev1.EventTypeWarning
		}
		if detail != "" {
			note += " (" + detail + ")"
		}
		r.Recorder.Eventf(p, nil, kind, c.Reason, "Reconcile", "%s", note)
	}
}

// news are the conditions of which a person should hear.
func news(base, p *v1alpha1.Proxy) []*metav1.Condition {
	prov := changed(base, p, v1alpha1.ConditionProvisioned)
	if prov != nil && prov.Status == metav1.ConditionUnknown && prov.Reason == v1alpha1.ReasonProvisioning {
		prov = nil // that nothing is known yet is no news; the next pass has some
	}
	stalled := changed(base, p, v1alpha1.ConditionStalled)
	healthy := changed(base, p, v1alpha1.ConditionHealthy)
	if healthy != nil && healthy.Reason == v1alpha1.ReasonProbing {
		healthy = nil // every machine begins so
	}
	for _, c := range []*metav1.Condition{prov, healthy} {
		if c != nil && stalled != nil && c.Reason == stalled.Reason {
			stalled = nil // one cause, told once
		}
	}
	return slices.DeleteFunc([]*metav1.Condition{prov, healthy, stalled}, func(c *metav1.Condition) bool { return c == nil })
}

// changed returns the condition if its status or reason isn't what it was, or if it is another problem that keeps a machine
// from coming up, or from going.
func changed(base, p *v1alpha1.Proxy, kind string) *metav1.Condition {
	now := meta.FindStatusCondition(p.Status.Conditions, kind)
	was := meta.FindStatusCondition(base.Status.Conditions, kind)
	if now == nil || (was != nil && was.Status == now.Status && was.Reason == now.Reason &&
		(!tellsOfProblem(now) || was.Message == now.Message)) {
		return nil
	}
	return now
}

// tellsOfProblem reports whether the message says what the reason alone doesn't: what keeps a machine from coming up, or one
// that should have been gone.
func tellsOfProblem(c *metav1.Condition) bool {
	switch c.Reason {
	case v1alpha1.ReasonBootProblem:
		return true
	case v1alpha1.ReasonReplacing:
		return strings.HasPrefix(c.Message, messageReplacing+" ")
	case v1alpha1.ReasonDeleting:
		return strings.HasPrefix(c.Message, messageDeleting+" ")
	default:
		return false
	}
}

// calm reports whether a reason belongs to the ordinary life of a Proxy.
func calm(reason string) bool {
	switch reason {
	case v1alpha1.ReasonHealthy, v1alpha1.ReasonProvisioning, v1alpha1.ReasonCreated, v1alpha1.ReasonReplacing, v1alpha1.ReasonDeleting, v1alpha1.ReasonExternalEndpoint:
		return true
	default:
		return false
	}
}

func (r *ProxyReconciler) warn(p *v1alpha1.Proxy, reason, note string) {
	r.Recorder.Eventf(p, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", note)
}
