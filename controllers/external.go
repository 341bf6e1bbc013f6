// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// reconcileExternal publishes the endpoint of a proxy that somebody else runs. It makes no provider call ever, and puts
// no finalizer on: there is nothing to remove.
func (r *ProxyReconciler) reconcileExternal(ctx context.Context, p *v1alpha1.Proxy) (ctrl.Result, error) {
	p.Status.IP, p.Status.Port = p.Spec.Endpoint.Host, p.Spec.Endpoint.Port
	v := verdict{provisioned: &cond{metav1.ConditionTrue, v1alpha1.ReasonExternalEndpoint, messageExternal}}
	username, password, err := r.resolveAuth(ctx, p, false)
	told, next := err == nil, ctrl.Result{}
	var problem *Problem
	if errors.As(err, &problem) {
		v.stalled = &cond{metav1.ConditionTrue, problem.Reason, problem.Message}
		next, err = again(problem.After), nil
	}
	r.externalVitals(p, username, password, told).weigh(v).apply(p)
	return next, err
}
