// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// OtherInstallation returns the installation whose the machines of the Proxy are if that isn't the given one; empty if they are its
// own, or there are none. An abandoned Proxy may be let go by anybody.
func OtherInstallation(p *v1alpha1.Proxy, installation string) string {
	in := readIntent(p)
	if in == nil || in.Installation == installation || !p.DeletionTimestamp.IsZero() && abandoned(p) {
		return ""
	}
	return in.Installation
}

// ofAnother reports whether the machines of the Proxy are those of another installation: of an operator with another
// --instance, or in the cluster that this one is a copy of. Two that work on one Proxy make machines for ever, each what
// the other doesn't know.
func (r *ProxyReconciler) ofAnother(p *v1alpha1.Proxy) bool {
	return OtherInstallation(p, r.Installation) != ""
}

// keepOff does nothing, and tells so once. It doesn't write status either: two writers of one status are a hot loop.
func (r *ProxyReconciler) keepOff(ctx context.Context, p *v1alpha1.Proxy) (ctrl.Result, error) {
	calls := r.memory.of(p)
	if !calls.Warned {
		calls.Warned = true
		note := fmt.Sprintf("This Proxy is that of operator installation %s; this one, %s, leaves it alone. Run one operator for a namespace. "+
			"If that installation is gone, remove its machines and the annotation %s.", readIntent(p).Installation, r.Installation, v1alpha1.AnnotationIntent)
		log.FromContext(ctx).Info(note)
		r.warn(p, v1alpha1.ReasonOtherInstallation, note)
	}
	return ctrl.Result{}, errAnother
}
