// SPDX-License-Identifier: Apache-2.0

// Package controllers turns Proxy objects into machines. Reading order: proxy_controller.go (wiring, dispatch),
// managed.go, delete.go and external.go (one branch each), observe.go (what is), want.go (what should be), rules.go
// and decide.go (the rules, pure), facts.go (what they ask), act.go (one step), status.go and failure.go (what the user sees), ledger.go and memory.go (what is
// known of creates). guards.go names the precautions that the simulation leaves out one by one, to see that it notices.
package controllers

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// ProxyReconciler reconciles Proxy objects. All fields down to Metrics are required, and all are constant after the
// first pass.
type ProxyReconciler struct {
	client.Client                      // reads come from the cache
	APIReader     client.Reader        // reads past the cache: before anything is destroyed
	Recorder      events.EventRecorder // Events on transitions
	Providers     providers.Registry   // the accounts
	Installation  string               // providers.InstallationID
	Clock         clock.PassiveClock   // the only clock
	Secrets       *Secrets             // cloud-init and credentials
	Metrics       *Metrics             // the operator's own

	// Health probes proxies; nil: Ready is what Provisioned is, and no machine is replaced for its health.
	Health         Health
	HealthDefaults HealthDefaults
	// DisruptionBudget is how many machines of a namespace, or which part of them, may be down at a time because the operator
	// chose to replace them; the zero value is 10 %. At least one may.
	DisruptionBudget intstr.IntOrString

	// Wake asks for a pass on a Proxy at once. SetupWithManager sets it; nil: Proxies wait for their next pass.
	Wake func(types.NamespacedName)

	// For internal/sim alone, nil in the product: deadlines by a virtual clock, and precautions to leave out.
	Deadline  func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	Unguarded map[Guard]bool

	memory   memory
	budget   budget
	underway underway
}

// Reconcile brings one Proxy one step closer to its spec.
func (r *ProxyReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var p v1alpha1.Proxy
	if err := r.Get(ctx, req.NamespacedName, &p); err != nil {
		if apierrors.IsNotFound(err) {
			return r.gone(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	if r.memory.behind(&p) {
		return again(pollFirst), nil // the event of our own write comes sooner
	}
	base := p.DeepCopy()
	ctx = providers.OnBehalfOf(ctx, providers.Tags{Namespace: p.Namespace, Name: p.Name, OwnerUID: string(p.UID)})
	res, err := r.dispatch(ctx, &p)
	switch {
	case errors.Is(err, errStale):
		return again(pollFirst), nil // or at the event that brings the newer one
	case errors.Is(err, errAnother):
		r.budget.passed(base, r.Clock.Now())
		return ctrl.Result{}, nil
	}
	perr := r.patchStatusIfChanged(ctx, base, &p)
	if err == nil && apierrors.IsConflict(perr) {
		return ranked(&p, again(pollFirst)), nil
	}
	r.budget.passed(base, r.Clock.Now())
	err = errors.Join(err, perr)
	r.endCall(req.NamespacedName, res, err)
	if err != nil {
		return ctrl.Result{Priority: priority(&p)}, err
	}
	r.freeSlot(&p)
	return ranked(&p, res), nil
}

func (r *ProxyReconciler) dispatch(ctx context.Context, p *v1alpha1.Proxy) (ctrl.Result, error) {
	switch {
	case paused(p):
		r.leaveLine(p)
		verdict{
			unknown: &cond{metav1.ConditionUnknown, v1alpha1.ReasonPaused, messagePaused},
			stalled: &cond{metav1.ConditionTrue, v1alpha1.ReasonPaused, messagePaused},
		}.apply(p)
		return ctrl.Result{}, nil
	case r.ofAnother(p):
		return r.keepOff(ctx, p)
	case !p.DeletionTimestamp.IsZero():
		return r.reconcileDelete(ctx, p)
	case p.Spec.Mode == v1alpha1.ModeExternal:
		return r.reconcileExternal(ctx, p)
	default:
		return r.reconcileManaged(ctx, p)
	}
}

// Options of the controller.
type Options struct {
	MaxConcurrentReconciles int
	WatchSecrets            bool // else a rotated Secret is seen at the next poll
}

// maxBackoff bounds the wait after errors: a cloud that comes back is used again soon.
const maxBackoff = 5 * time.Minute

// SetupWithManager wires what leads to a pass: a change of a Proxy, a change of a Secret that one uses, and the timers
// that passes ask for.
func (r *ProxyReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Proxy{}, secretIndex, usedSecrets); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("proxy").For(&v1alpha1.Proxy{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.MaxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](requeueSoon, maxBackoff),
		})
	b = b.WithLogConstructor(func(req *reconcile.Request) logr.Logger {
		l := mgr.GetLogger().WithName("proxy") // the defaults name group, kind, and the Proxy three times
		if req != nil {
			l = l.WithValues("proxy", req.NamespacedName)
		}
		return l
	})
	b = b.Watches(&v1alpha1.Proxy{}, deletionsFirst())
	b = b.WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.Wake = func(id types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: id}) }
		return nil
	}))
	if o.WatchSecrets {
		b = b.WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.proxiesForSecret))
	}
	return b.Complete(r)
}

// within bounds a call. The bound is of the wall clock: it ends calls that hang, rules don't depend on it.
func (r *ProxyReconciler) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if r.Deadline != nil {
		return r.Deadline(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}

var _ reconcile.TypedReconciler[reconcile.Request] = &ProxyReconciler{}

// ClusterUID is the UID of the namespace that every cluster has and nobody deletes: the cluster's identity.
func ClusterUID(ctx context.Context, reader client.Reader) (types.UID, error) {
	var ns metav1.PartialObjectMetadata
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &ns); err != nil {
		return "", err
	}
	return ns.UID, nil
}
