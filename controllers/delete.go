// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// reconcileDelete removes every machine of a Proxy that is being deleted, wherever one can be, and lets the Proxy go
// when all of them are proved gone. Neither spec, Secrets nor a latch matter on the way out.
func (r *ProxyReconciler) reconcileDelete(ctx context.Context, p *v1alpha1.Proxy) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	r.unwatch(p.UID)
	want := Want{Owner: string(p.UID), Account: p.Spec.Provider}
	if abandoned(p) {
		return r.release(ctx, p, Seen{Deleting: true, Abandon: true})
	}
	seen, err := r.observe(ctx, p, want)
	if err != nil {
		return r.callFailed(ctx, p, want, err, providers.ReadClass(err))
	}
	return r.act(ctx, p, seen, decideDelete(seen))
}
