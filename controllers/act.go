// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// act does the step, and reports it.
func (r *ProxyReconciler) act(ctx context.Context, p *v1alpha1.Proxy, s Seen, st Step) (ctrl.Result, error) {
	r.memory.of(p).Noted = "" // the look has succeeded
	switch after, err := r.mayDisrupt(ctx, p, s, st); {
	case err != nil:
		return ctrl.Result{}, err
	case after > 0:
		report(p, s, s.waits(st, after))
		return again(after), nil
	}
	r.leaveLine(p)
	switch st.Do {
	case Create:
		return r.create(ctx, p, s, st)
	case Repeat:
		return r.repeat(ctx, p, s, st)
	case Destroy:
		return r.destroy(ctx, p, s, st)
	case Release:
		return r.release(ctx, p, s)
	case Adopt:
		if err := r.adopt(ctx, p, st.Keep); err != nil {
			return r.refused(ctx, p, err)
		}
	case Nothing, Wait:
	}
	r.reportWithProblem(p, s, st)
	return again(st.After), nil
}

// reportWithProblem reports the step, and keeps the provider's words about a machine that doesn't come up for the Event.
func (r *ProxyReconciler) reportWithProblem(p *v1alpha1.Proxy, s Seen, st Step) {
	if st.Keep == nil || st.Keep.Problem == "" {
		report(p, s, st)
		return
	}
	before := p.DeepCopy()
	report(p, s, st)
	if changed(before, p, v1alpha1.ConditionProvisioned) != nil {
		r.memory.of(p).Detail = sanitize(st.Keep.Detail, s.Want.Material.UserData, s.Want.Material.Password)
	}
}

// create writes the next intent and, only if that write succeeded, sends the create.
func (r *ProxyReconciler) create(ctx context.Context, p *v1alpha1.Proxy, s Seen, st Step) (ctrl.Result, error) {
	in := Intent{
		UID: p.UID, Installation: r.Installation, Incarnation: s.newest() + 1, Hash: s.Want.hash(), Account: s.Want.Account, Zone: st.Zone, At: r.Clock.Now().UTC(),
	}
	in.Boots = s.bootsBefore(in.Hash)
	var err error
	if in.Zone, err = r.admit(p, s, in); err != nil {
		return r.held(ctx, p, in.Account, err)
	}
	err = r.patchMeta(ctx, p, func(o *v1alpha1.Proxy) error {
		controllerutil.AddFinalizer(o, v1alpha1.Finalizer)
		return in.write(o)
	})
	if err != nil {
		return r.refused(ctx, p, err)
	}
	r.memory.of(p).begin(in)
	if st.Cause == CauseVanished {
		r.replacing(ctx, p, st.Cause)
	}
	p.Status.ProviderID, p.Status.Zone, p.Status.IP, p.Status.Port = "", "", "", 0 // proved gone
	return r.send(ctx, p, s, in)
}

// repeat sends the create of the open intent again, after reading the Proxy live: no write proves that the view is new,
// and in an old one the machine may have come and gone since.
func (r *ProxyReconciler) repeat(ctx context.Context, p *v1alpha1.Proxy, s Seen, st Step) (ctrl.Result, error) {
	ok, err := r.confirm(ctx, p, s, st)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !ok && !r.off(GuardLiveRepeat) {
		return ctrl.Result{}, errStale
	}
	return r.send(ctx, p, s, *s.Intent)
}

// send sends the create of an intent: at most until the intent's deadline, so that whoever reads the ledger later knows
// when nothing can land any more.
func (r *ProxyReconciler) send(ctx context.Context, p *v1alpha1.Proxy, s Seen, in Intent) (ctrl.Result, error) {
	acc := r.Providers[in.Account]
	left := in.At.Add(acc.Provider.Traits().Deadline()).Sub(r.Clock.Now())
	if left <= 0 && !r.off(GuardDeadline) {
		report(p, s, Step{Do: Repeat})
		return again(pollFirst), nil
	}
	if r.off(GuardDeadline) {
		left = acc.Provider.Traits().Deadline()
	}
	calls := r.memory.of(p)
	if r.off(GuardOwnCreates) && !calls.wrote(in) {
		calls.begin(in)
	}
	mine := calls.wrote(in)
	calls.send(mine, r.Clock.Now())
	req := r.request(p, s.Want, in)
	inst, err := r.sendCreate(ctx, acc, req, left)
	calls.Touched = r.Clock.Now()
	answer := err
	if err == nil && inst.Tags != req.Tags {
		// Somebody else's machine is never adopted. What became of ours is not known: the intent stays open.
		err = providers.Conflict("create instance", req.Name)
		answer = &providers.Error{Class: providers.Ambiguous, Op: "create instance", Err: err}
	}
	if mine {
		calls.answer(answer, r.Clock.Now())
	}
	if err != nil {
		return r.createFailed(ctx, p, s, in, err)
	}
	log.FromContext(ctx).Info("asked for an instance", "providerID", inst.Ref.String(), "incarnation", in.Incarnation)
	calls.Own = inst.Ref
	inst.State = providers.StateProvisioning // Running is believed when a look says so
	report(p, s, Step{Do: Create, Keep: &inst})
	return again(pollFirst), nil
}

func (r *ProxyReconciler) sendCreate(ctx context.Context, acc providers.Account, req providers.CreateRequest, left time.Duration) (providers.Instance, error) {
	ctx, cancel := r.within(ctx, left)
	defer cancel()
	return r.underway.create(ctx, acc.Provider, req)
}

// adopt writes the ledger back for a machine that is ours, after somebody wiped it.
func (r *ProxyReconciler) adopt(ctx context.Context, p *v1alpha1.Proxy, keep *providers.Instance) error {
	in := Intent{
		UID: p.UID, Installation: r.Installation, Incarnation: keep.Tags.Incarnation, Hash: keep.Tags.SpecHash, Account: keep.Ref.Account, Zone: keep.Zone, At: keep.CreatedAt.UTC(),
	}
	if in.At.IsZero() {
		in.At = r.Clock.Now().UTC()
	}
	return r.patchMeta(ctx, p, func(o *v1alpha1.Proxy) error {
		controllerutil.AddFinalizer(o, v1alpha1.Finalizer)
		return in.write(o)
	})
}

// destroy deletes one instance, after reading the Proxy and its inputs live: a stale view never deletes
// (rabbitmq/cluster-operator#648).
func (r *ProxyReconciler) destroy(ctx context.Context, p *v1alpha1.Proxy, s Seen, st Step) (ctrl.Result, error) {
	ok, err := r.confirm(ctx, p, s, st)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !ok && !r.off(GuardLiveRead) {
		return ctrl.Result{}, errStale
	}
	acc, ok := r.Providers[st.Of.Account]
	if !ok { // decide looks only where the registry does
		return ctrl.Result{}, fmt.Errorf("delete %s: account %q is not configured", st.Of, st.Of.Account)
	}
	cctx, cancel := r.within(ctx, callTimeout)
	err = acc.Provider.Delete(cctx, st.Of)
	cancel()
	if err != nil && !providers.Is(err, providers.NotFound) {
		return r.callFailed(ctx, p, s.Want, fmt.Errorf("delete instance: %w", err), providers.MutationClass(err))
	}
	calls := r.memory.of(p)
	if s.failed(st) {
		calls.BootFailed = s.newest()
	}
	_, before := calls.Deleted[st.Of]
	calls.Touched = r.Clock.Now()
	calls.Deleted[st.Of] = calls.Touched
	if !before {
		log.FromContext(ctx).Info("asked an instance to go", "providerID", st.Of.String(), "cause", string(st.Cause))
		r.replacing(ctx, p, st.Cause)
		r.addProblem(p, s, st)
	}
	report(p, s, st)
	return again(pollFirst), nil
}

// replacing counts a replacement and keeps its cause for the Event.
func (r *ProxyReconciler) replacing(_ context.Context, p *v1alpha1.Proxy, cause Cause) {
	if cause == CauseDeleted || cause == CauseTwin || cause == CauseSuperseded {
		return
	}
	r.memory.of(p).Detail = "cause: " + string(cause)
	r.Metrics.replacements.WithLabelValues(string(cause)).Inc()
}

// addProblem adds to the cause of a replacement what the provider says of a machine that is over.
func (r *ProxyReconciler) addProblem(p *v1alpha1.Proxy, s Seen, st Step) {
	for _, i := range s.Instances {
		if calls := r.memory.of(p); i.Ref == st.Of && i.Problem != "" && calls.Detail != "" {
			calls.Detail = sanitize(calls.Detail+", "+i.Problem+" "+i.Detail, s.Want.Material.UserData, s.Want.Material.Password)
		}
	}
}

// confirm takes the decision again on the Proxy as the API server has it now, with its Secrets as they are now.
func (r *ProxyReconciler) confirm(ctx context.Context, p *v1alpha1.Proxy, s Seen, st Step) (bool, error) {
	var live v1alpha1.Proxy
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(p), &live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if live.UID != p.UID || paused(&live) {
		return false, nil
	}
	want := s.Want
	if !s.Deleting {
		var err error
		if want, err = r.want(ctx, &live, true); err != nil {
			return false, err
		}
	}
	l := look{at: s.Now, instances: s.Instances, blind: s.Blind, foreign: s.Foreign, traits: s.Traits, unguarded: s.Unguarded}
	now := see(&live, want, l, s.Calls)
	now.Vitals = s.Vitals
	if s.Vitals.Probed && worked(&live, s.newest()) { // then it goes within the budget alone
		now.Vitals.Booted = true
	}
	return next(now).same(st) && now.voluntary(st) == s.voluntary(st), nil
}

// release lets the Proxy go.
func (r *ProxyReconciler) release(ctx context.Context, p *v1alpha1.Proxy, s Seen) (ctrl.Result, error) {
	err := r.patchMeta(ctx, p, func(o *v1alpha1.Proxy) error {
		controllerutil.RemoveFinalizer(o, v1alpha1.Finalizer)
		return nil
	})
	if err != nil {
		return r.refused(ctx, p, err)
	}
	r.memory.entry(p).released = true
	log.FromContext(ctx).Info("let the Proxy go", "abandoned", s.Abandon)
	if s.Abandon {
		r.warn(p, v1alpha1.ReasonAbandoned, "Let go without its machine, as the abandon annotation asked; look after "+orNothing(p.Status.ProviderID)+" yourself.")
	}
	return ctrl.Result{}, nil
}

func orNothing(providerID string) string {
	if providerID == "" {
		return "what may be left in the account"
	}
	return providerID
}

// fasten puts a missing finalizer back on a Proxy that has, or may have, a machine.
func (r *ProxyReconciler) fasten(ctx context.Context, p *v1alpha1.Proxy, instances int) error {
	if controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer) || r.off(GuardFinalizer) {
		return nil
	}
	sent := r.memory.of(p).Intent.UID != "" // though somebody wiped the ledger
	if instances == 0 && !sent && readIntent(p) == nil && p.Status.ProviderID == "" && p.Status.Instance == nil {
		return nil // nothing yet: it comes with the first intent, in one write
	}
	return r.patchMeta(ctx, p, func(o *v1alpha1.Proxy) error {
		controllerutil.AddFinalizer(o, v1alpha1.Finalizer)
		return nil
	})
}

// patchMeta changes metadata by a merge patch under optimistic lock: a PUT would drop the fields of a newer version, and
// without the lock an old view could write. The staged status survives; the answer of the server would replace it.
func (r *ProxyReconciler) patchMeta(ctx context.Context, p *v1alpha1.Proxy, change func(*v1alpha1.Proxy) error) error {
	to := p.DeepCopy()
	if err := change(to); err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(p.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, to, patch); err != nil {
		return fmt.Errorf("patch metadata: %w", err)
	}
	p.ObjectMeta = to.ObjectMeta
	r.memory.wrote(p)
	return nil
}

// errStale ends a pass that saw an old Proxy. Nothing happened, nothing is written from that view, the next pass sees more.
var errStale = errors.New("saw an old Proxy")

// errAnother ends a pass on a Proxy of another installation: nothing is written, nothing is waited for.
var errAnother = errors.New("the Proxy is another installation's")

// refused sorts the error of a metadata write: a conflict means that the view was old; one that the API server will
// give again is told to the user, since without its ledger nothing can be made.
func (r *ProxyReconciler) refused(ctx context.Context, p *v1alpha1.Proxy, err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		log.FromContext(ctx).V(1).Info("saw an old Proxy; comes again", "error", err.Error())
		return ctrl.Result{}, errStale
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err):
		verdict{
			unknown: &cond{metav1.ConditionUnknown, v1alpha1.ReasonLedgerError, messageLedger},
			stalled: &cond{metav1.ConditionTrue, v1alpha1.ReasonLedgerError, messageLedger},
		}.apply(p)
	}
	return ctrl.Result{}, err
}
