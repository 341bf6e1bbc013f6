// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// reconcileManaged brings the machine of a Managed Proxy one step closer to the spec: observe, decide, act.
func (r *ProxyReconciler) reconcileManaged(ctx context.Context, p *v1alpha1.Proxy) (ctrl.Result, error) {
	if err := r.fasten(ctx, p, 0); err != nil {
		return r.refused(ctx, p, err)
	}
	want, err := r.want(ctx, p, false)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.recallLatch(p, want)
	seen, err := r.observe(ctx, p, want)
	if err != nil {
		return r.callFailed(ctx, p, want, err, providers.ReadClass(err))
	}
	if err := r.fasten(ctx, p, len(seen.Instances)); err != nil {
		return r.refused(ctx, p, err)
	}
	return r.act(ctx, p, seen, decide(seen))
}

// recallLatch makes a permanent failure that an earlier process wrote down hold back this one, for as long as nothing
// that it was made from has changed, and half an hour at most (kubermatic/machine-controller#2080: a raised quota, a
// mended role must heal by themselves).
func (r *ProxyReconciler) recallLatch(p *v1alpha1.Proxy, want Want) {
	f := p.Status.LastFailure
	if f == nil {
		return
	}
	if f.Inputs != want.Inputs && !r.off(GuardLatchLifts) {
		p.Status.LastFailure = nil
		return
	}
	if calls := r.memory.of(p); calls.HoldInputs != want.Inputs {
		calls.hold(want.Inputs, r.Clock.Now().Add(permanentRetry))
	}
}
