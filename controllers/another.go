// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// ofAnother reports whether the machines of the Proxy are those of another installation: of an operator with another
// --instance, or in the cluster that this one is a copy of. Two that work on one Proxy make machines for ever, each what
// the other doesn't know. An abandoned Proxy may be let go by anybody.
func (r *ProxyReconciler) ofAnother(p *v1alpha1.Proxy) bool {
	in := readIntent(p)
	return in != nil && in.Installation != "" && in.Installation != r.Installation && (p.DeletionTimestamp.IsZero() || !abandoned(p))
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
