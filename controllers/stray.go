// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// gone is the pass on a Proxy that the cache doesn't have. Mostly there is nothing to do: this process let it go, or never
// made a machine for it. But the API server can delete an object in the very moment in which our finalizer arrives: then the
// machine that this process asked for in that pass is removed here. All other machines without a Proxy are the collector's.
func (r *ProxyReconciler) gone(ctx context.Context, id types.NamespacedName) (ctrl.Result, error) {
	calls := r.memory.stray(id)
	if calls == nil || r.off(GuardStray) {
		r.forget(id)
		return ctrl.Result{}, nil
	}
	var live v1alpha1.Proxy
	if err := r.APIReader.Get(ctx, id, &live); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if live.UID == calls.Intent.UID {
		return again(pollFirst), nil // the cache is behind
	}
	left, err := r.removeStray(ctx, id, calls)
	if err != nil || left {
		return again(pollFirst), err
	}
	r.forget(id)
	return ctrl.Result{}, nil
}

// forget drops what this process knows of a Proxy that is gone.
func (r *ProxyReconciler) forget(id types.NamespacedName) {
	uid := r.memory.forget(id)
	r.unwatch(uid)
	called := r.budget.leave(id)
	if r.budget.giveUp(uid, id.Namespace) || called {
		r.call(id.Namespace)
	}
	if r.memory.empty(id.Namespace) {
		r.budget.forget(id.Namespace)
	}
}

// removeStray tells one machine of the intent's owner to go, and reports whether there may be more to do.
func (r *ProxyReconciler) removeStray(ctx context.Context, id types.NamespacedName, calls *Calls) (bool, error) {
	in := calls.Intent
	acc, ok := r.Providers[in.Account]
	if !ok {
		return false, nil
	}
	s, err := r.lister(acc).Since(ctx, r.Clock.Now())
	if err != nil {
		if providers.IsHeld(err) {
			return true, nil
		}
		return false, fmt.Errorf("list instances: %w", err)
	}
	mine := slices.DeleteFunc(slices.Clone(s.Of(string(in.UID))), func(i providers.Instance) bool { return !isOf(id, i) })
	lag := acc.Provider.Traits().Lag
	for _, i := range mine {
		if i.State == providers.StateDeleting || calls.deletedWithin(i.Ref, lag+deleteAgain, r.Clock.Now()) {
			continue
		}
		log.FromContext(ctx).Info("asked an instance to go whose Proxy is gone", "providerID", i.Ref.String(), "uid", string(in.UID))
		switch err := acc.Provider.Delete(ctx, i.Ref); {
		case providers.IsHeld(err):
		case err != nil && !providers.Is(err, providers.NotFound):
			return false, fmt.Errorf("delete instance: %w", err)
		default:
			calls.Deleted[i.Ref] = r.Clock.Now()
		}
		return true, nil
	}
	// One that a list doesn't show for longer than lists lag is the collector's, if it comes at all.
	return len(mine) > 0 || s.StartedAt.Before(in.At.Add(lag+confirmGap)), nil
}

// stray returns what this process did for a Proxy that was gone before the pass after its first create. Of one whose machine was seen
// nobody can tell here why it is gone: Proxies can be lost, and come back (gardener/machine-controller-manager#657).
func (m *memory) stray(id types.NamespacedName) *Calls {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.byID[id]
	if !ok || r.released || r.calls.Sent == 0 || r.calls.Seen > 0 {
		return nil
	}
	return &r.calls
}
