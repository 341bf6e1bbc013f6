// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// The order in which passes are taken from the queue; the higher first. A pass keeps the priority that it came with until
// another is set: those of a new process's first list come with a low one, and would for ever stand behind every new Proxy.
const (
	priorityDeleting = 10 // machines that are paid for and wanted no more
	priorityUsual    = 0
	priorityWaiting  = -10 // for its turn at an account: there is nothing to do for it yet
)

// ranked sets the priority of the Proxy's next pass, if there is one, unless the pass set it.
func ranked(p *v1alpha1.Proxy, res ctrl.Result) ctrl.Result {
	if res.RequeueAfter > 0 && res.Priority == nil {
		res.Priority = priority(p)
	}
	return res
}

func priority(p *v1alpha1.Proxy) *int {
	if !p.DeletionTimestamp.IsZero() {
		return ptr.To(priorityDeleting)
	}
	return ptr.To(priorityUsual)
}

// deletionsFirst lets a Proxy that is deleted pass those that wait for their first pass: a thousand that are made at once
// must not hold it up.
func deletionsFirst() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			queue, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
			if ok && e.ObjectNew != nil && e.ObjectNew.GetDeletionTimestamp() != nil {
				queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priorityDeleting)}, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)})
			}
		},
	}
}
