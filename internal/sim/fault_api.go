// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

var errInjected = errors.New("injected")

func refuse(err error) func(*World, *call, int) {
	return func(_ *World, c *call, _ int) { c.refuse = err }
}

// apiFaults are of the API server.
func apiFaults() []kind {
	proxies := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "proxies"}
	return []kind{
		{name: "api-500", hits: apiCalls, strike: refuse(apierrors.NewInternalError(errInjected))},
		{name: "api-429", hits: apiCalls, strike: refuse(apierrors.NewTooManyRequests("slow down", 1))},
		{name: "rejected", hits: proxyWrites, strike: refuse(apierrors.NewInvalid(schema.GroupKind{Group: proxies.Group, Kind: "Proxy"}, "a", nil))},
		// Applied, and the answer is lost.
		{name: "api-lost", hits: apiWrites, strike: func(_ *World, c *call, _ int) {
			c.after = func() error { return apierrors.NewTimeoutError("the answer was lost", 1) }
		}},
		// Somebody else writes first.
		{name: "conflict", hits: proxyWrites, strike: func(w *World, c *call, _ int) {
			if p := w.proxy(c.key); p != nil {
				q := p.DeepCopy()
				q.Labels = map[string]string{"touched": c.op.label()}
				w.must(w.api.Client().Update(context.Background(), q))
			}
		}},
		{name: "api-down", args: []int{60}, hits: sentCalls, perArg: true, strike: func(w *World, _ *call, n int) {
			w.apiDown = w.now().Add(seconds(n))
		}},
		// The operator's rights are gone for a while.
		{name: "forbidden", args: []int{90}, hits: apiCalls, perArg: true, strike: func(w *World, c *call, n int) {
			w.denied = w.now().Add(seconds(n))
			w.outages(c)
		}, patience: time.Minute},
	}
}

func (o Op) label() string {
	if o == Status {
		return "status"
	}
	return "object"
}

// outages refuses what can't work while a door is shut.
func (w *World) outages(c *call) {
	switch {
	case c.op == Cached || c.op.ofCloud():
	case w.now().Before(w.apiDown):
		c.refuse = apierrors.NewServiceUnavailable("the API server is down")
	case w.now().Before(w.denied):
		c.refuse = apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "proxies"}, c.key.Name, errInjected)
	}
	if c.op == Get && w.now().Before(w.gets404) {
		c.cloud.Class = notFound
	}
	if c.op == Create && w.now().Before(w.refused) {
		c.cloud.Class = providers.Permanent
	}
	if w.now().Before(w.blind) {
		w.blinded(c)
	}
}
