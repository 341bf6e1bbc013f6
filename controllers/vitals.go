// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/health"
)

// The messages about health.
const (
	messageHealthy   = "Requests get through the proxy."
	messageProbing   = "No request has got through the proxy yet."
	messageBroken    = "Requests don't get through the proxy."
	messageOpen      = "The proxy must not be used."
	messageNoMachine = "There is no machine to probe."
	messageNoTargets = "There is nothing to ask for through the proxy; set spec.healthCheck.targets, or the operator's --judge-url or --health-target."
)

// illMessage is what is known and why. Through an open proxy requests do get.
func illMessage(reason, known string) string {
	if reason == v1alpha1.ReasonOpenProxy {
		known = messageOpen
	}
	return fmt.Sprintf("%s: %s.", strings.TrimSuffix(known, "."), saying(reason))
}

// healthy is the condition Healthy. Unknown is kept for a machine that has never worked: it boots, or it never will.
func (v Vitals) healthy() *cond {
	switch {
	case !v.Probed:
		return nil
	case v.NoTargets:
		return &cond{metav1.ConditionUnknown, v1alpha1.ReasonNoTargets, messageNoTargets}
	case v.Health == health.Healthy:
		return &cond{metav1.ConditionTrue, v1alpha1.ReasonHealthy, messageHealthy}
	case v.Health == health.Unhealthy && v.Booted:
		return &cond{metav1.ConditionFalse, v.Reason, illMessage(v.Reason, messageBroken)}
	case v.Health == health.Unhealthy:
		return &cond{metav1.ConditionUnknown, v.Reason, illMessage(v.Reason, messageProbing)}
	case v.Health == health.Unknown:
		return v.undecided()
	default:
		return &cond{metav1.ConditionUnknown, v1alpha1.ReasonProbing, messageNoMachine}
	}
}

// undecided is the condition Healthy as long as no verdict is possible.
func (v Vitals) undecided() *cond {
	switch {
	case v.Reason == v1alpha1.ReasonTargetUnreachable: // not counted as long as the operator can't reach the target either
		return &cond{metav1.ConditionUnknown, v.Reason, illMessage(v.Reason, messageProbing) + " Neither can the operator; look at the target's URL first."}
	case othersFault(v.Reason):
		return &cond{metav1.ConditionUnknown, v.Reason, illMessage(v.Reason, messageProbing)}
	default:
		return &cond{metav1.ConditionUnknown, v1alpha1.ReasonProbing, messageProbing}
	}
}

// weigh completes a verdict on a proxy that is provisioned or not with what is known of its health: a machine that runs is
// Ready only when requests get through it. Where proxies aren't probed, Ready is Provisioned.
func (v Vitals) weigh(w verdict) verdict {
	w.healthy, w.ready = v.healthy(), w.provisioned
	switch {
	case w.healthy == nil:
		return w
	case w.provisioned.status != metav1.ConditionTrue: // what is known is of a machine that goes
		w.healthy = &cond{metav1.ConditionUnknown, v1alpha1.ReasonProbing, messageNoMachine}
		return w
	}
	if w.exitIP = v.ExitIP; w.healthy.status == metav1.ConditionTrue {
		w.ready = &cond{metav1.ConditionTrue, w.provisioned.reason, w.provisioned.message + " " + w.healthy.message}
		return w
	}
	w.ready = &cond{metav1.ConditionFalse, w.healthy.reason, w.healthy.message}
	switch {
	case needsPerson(w.healthy.reason):
		if w.stalled == nil {
			w.stalled = &cond{metav1.ConditionTrue, w.healthy.reason, w.healthy.message}
		}
	case w.healthy.status == metav1.ConditionUnknown && w.reconciling == nil:
		w.reconciling = &cond{metav1.ConditionTrue, w.healthy.reason, w.healthy.message}
	}
	return w
}

// beginHealth makes the condition Healthy be there from the first pass on.
func (r *ProxyReconciler) beginHealth(p *v1alpha1.Proxy) {
	if r.Health != nil && meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy) == nil {
		set(p, v1alpha1.ConditionHealthy, cond{metav1.ConditionUnknown, v1alpha1.ReasonProbing, messageNoMachine})
	}
}

// brokenFromTheStart reports whether an External proxy fails by its own fault, and no request got through it yet. There is
// nothing that could still come up.
func brokenFromTheStart(p *v1alpha1.Proxy) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	if p.Spec.Mode != v1alpha1.ModeExternal || c == nil || c.Status != metav1.ConditionUnknown || othersFault(c.Reason) {
		return false
	}
	return c.Reason != v1alpha1.ReasonProbing && c.Reason != v1alpha1.ReasonNoTargets
}

// needsPerson reports whether no wait will help.
func needsPerson(reason string) bool {
	switch reason {
	case v1alpha1.ReasonNoTargets, v1alpha1.ReasonTargetDenied, v1alpha1.ReasonProxyDenied:
		return true
	default:
		return false
	}
}

// othersFault reports whether a probe failed for something that never counts against the proxy. It keeps a proxy without a
// verdict waiting, and somebody must be told what for.
func othersFault(reason string) bool {
	switch reason {
	case v1alpha1.ReasonTargetError, v1alpha1.ReasonTargetDenied, v1alpha1.ReasonLocalError:
		return true
	default:
		return false
	}
}

// saying puts a probe's reason into words.
func saying(reason string) string {
	if s, ok := sayings()[reason]; ok {
		return s
	}
	return "reason " + reason
}
