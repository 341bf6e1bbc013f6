// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// The messages of conditions. Equal states give equal bytes, so each is a fixed sentence.
const (
	messageCreated      = "The machine runs."
	messageProvisioning = "A machine was asked for and isn't running yet."
	messageUnknown      = "Nothing is known yet; the operator tries again."
	messageReplacing    = "The machine is being removed; another one follows."
	messageOutdated     = "Another machine is wanted in place of the one that runs; it is replaced when that can be done: when creates go again, and when the namespace's disruption budget has a place."
	messageLetGo        = "The machine is gone; waiting until a create of an earlier run of the operator can't arrive any more."
	messageDeleting     = "The machine is being removed."
	messageLeftover     = "A machine that is left over is being removed."
	messageExternal     = "The endpoint is run by somebody else."
	messageLedger       = "The API server refuses what the operator notes on the object; look for annotations that are too long, a webhook, or missing rights."
	messagePaused       = "Everything is stopped, deletion too; remove the annotation " + v1alpha1.AnnotationPaused + " to go on."
)

// cond is what a condition is to say.
type cond struct {
	status          metav1.ConditionStatus
	reason, message string
}

// verdict is what one pass found out. It is put on the Proxy as a whole, so that no condition outlives its cause.
type verdict struct {
	provisioned *cond // nil: this pass can't tell; what was known stays
	unknown     *cond // in place of provisioned if nothing was known
	reconciling *cond
	stalled     *cond
	leave       bool // leave Reconciling and Stalled as they are

	ready   *cond // nil: Ready is Provisioned, and what is known of the health stays
	healthy *cond // with ready alone; nil: proxies aren't probed
	exitIP  string
}

// apply writes the verdict into status; the annotation problem of the Proxy, if there is one, shows as Stalled.
func (v verdict) apply(p *v1alpha1.Proxy) {
	if v.provisioned == nil && meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned) == nil {
		v.provisioned = v.unknown
	}
	if v.provisioned != nil {
		set(p, v1alpha1.ConditionProvisioned, *v.provisioned)
		set(p, v1alpha1.ConditionReady, *cmp.Or(v.ready, v.provisioned))
	}
	v.tellHealth(p)
	if v.stalled == nil {
		if ap := annotationProblem(p); ap != nil {
			v.stalled = &cond{metav1.ConditionTrue, ap.Reason, ap.Message}
		}
	}
	if v.leave && v.stalled == nil {
		return
	}
	whileTrue(p, v1alpha1.ConditionReconciling, v.reconciling)
	whileTrue(p, v1alpha1.ConditionStalled, v.stalled)
}

func (v verdict) tellHealth(p *v1alpha1.Proxy) {
	switch {
	case v.ready == nil:
	case v.healthy == nil:
		p.Status.ExitIP = ""
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.ConditionHealthy)
	default:
		p.Status.ExitIP = v.exitIP
		set(p, v1alpha1.ConditionHealthy, *v.healthy)
	}
}

func set(p *v1alpha1.Proxy, kind string, c cond) {
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: kind, Status: c.status, Reason: c.reason, Message: c.message, ObservedGeneration: p.Generation,
	})
}

// whileTrue keeps kstatus' rule for Reconciling and Stalled: True or absent.
func whileTrue(p *v1alpha1.Proxy, kind string, c *cond) {
	if c == nil {
		meta.RemoveStatusCondition(&p.Status.Conditions, kind)
		return
	}
	set(p, kind, cond{metav1.ConditionTrue, c.reason, c.message})
}

// report writes down what the pass saw and did for a Managed Proxy.
func report(p *v1alpha1.Proxy, s Seen, st Step) {
	record(p, s, st)
	v := judge(s, st)
	v.unknown = &cond{metav1.ConditionUnknown, v1alpha1.ReasonProvisioning, messageProvisioning}
	if s.Want.Problem != nil {
		v.stalled = &cond{metav1.ConditionTrue, s.Want.Problem.Reason, s.Want.Problem.Message}
	}
	if s.Blind != "" {
		v.stalled = &cond{metav1.ConditionTrue, v1alpha1.ReasonPermanentError, blindMessage(s.Blind, s.Deleting)}
	}
	if st.Keep == nil && st.Do == Wait && !s.Deleting {
		v = v.withoutSuccessor(p)
	}
	if v.provisioned != nil && !s.Deleting {
		v = s.Vitals.weigh(v)
	}
	v.apply(p)
}

// judge says what the step means for the conditions Provisioned and Reconciling.
func judge(s Seen, st Step) verdict {
	switch {
	case s.Deleting:
		return leaving(s, st)
	case st.Keep != nil && st.Keep.State == providers.StateRunning:
		return serving(s, st)
	case st.Keep != nil, st.Do == Create, st.Do == Repeat:
		return booting(st.Keep)
	case s.Blind != "": // nobody can tell what became of the machine
		return verdict{leave: true}
	case len(s.Instances) == 0 && s.open():
		return under(v1alpha1.ReasonProvisioning, messageProvisioning)
	case s.Want.Problem != nil:
		return verdict{provisioned: &cond{metav1.ConditionFalse, s.Want.Problem.Reason, s.Want.Problem.Message}}
	case st.Do == Destroy, st.Cause == CauseSuperseded:
		return under(v1alpha1.ReasonReplacing, s.andOverdue(messageReplacing))
	default: // held, or waiting for a second look: what was written stays true
		return verdict{leave: true}
	}
}

// booting is the verdict on a Proxy whose machine was asked for and doesn't run yet.
func booting(i *providers.Instance) verdict {
	if i != nil && i.Problem != "" {
		return under(v1alpha1.ReasonBootProblem, fmt.Sprintf("The machine doesn't come up: %s.", i.Problem))
	}
	return under(v1alpha1.ReasonProvisioning, messageProvisioning)
}

// leaving is the verdict on a Proxy that is being deleted.
func leaving(s Seen, st Step) verdict {
	if st.Do == Wait && len(s.Instances) == 0 && s.Blind == "" && s.open() {
		return under(v1alpha1.ReasonDeleting, messageLetGo)
	}
	return under(v1alpha1.ReasonDeleting, s.andOverdue(messageDeleting))
}

// stillLeaving is what a pass tells of a Proxy that is being deleted if it saw nothing: what the last one that saw something
// told, or the condition would change with every failure and back.
func stillLeaving(p *v1alpha1.Proxy) *cond {
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReconciling); c != nil && c.Reason == v1alpha1.ReasonDeleting {
		return &cond{c.Status, c.Reason, c.Message}
	}
	return &cond{metav1.ConditionTrue, v1alpha1.ReasonDeleting, messageDeleting}
}

// andOverdue adds to what is said of machines that go what keeps the first of those that should have been gone.
func (s Seen) andOverdue(message string) string {
	for _, i := range s.Instances {
		if i.Overdue != "" {
			return message + " " + i.Overdue
		}
	}
	return message
}

// under is the verdict on a Proxy without a machine that serves, and the work that goes on.
func under(reason, message string) verdict {
	c := &cond{metav1.ConditionFalse, reason, message}
	return verdict{provisioned: c, reconciling: c}
}

// withoutSuccessor keeps to be read in Reconciling that a machine is gone and its successor wasn't asked for, whatever it is
// that keeps it waiting. The ledger tells of the machine that is gone, as it does while that one boots: a process that
// begins now would give the place of a first machine in the budget to another.
func (v verdict) withoutSuccessor(p *v1alpha1.Proxy) verdict {
	was := replacing(p) || meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProvisioned)
	if was && v.reconciling != nil && v.provisioned != nil && v.provisioned.status != metav1.ConditionTrue {
		v.reconciling = &cond{v.reconciling.status, v1alpha1.ReasonReplacing, v.reconciling.message}
	}
	return v
}

// serving is the verdict on a Proxy whose machine runs, whatever else is to be done. That another one is wanted doesn't
// end Ready; Reconciling tells of it.
func serving(s Seen, st Step) verdict {
	v := verdict{provisioned: &cond{metav1.ConditionTrue, v1alpha1.ReasonCreated, messageCreated}}
	switch {
	case st.Do == Destroy:
		v.reconciling = &cond{metav1.ConditionTrue, v1alpha1.ReasonReplacing, s.andOverdue(messageLeftover)}
	case st.Cause != "":
		v.reconciling = &cond{metav1.ConditionTrue, v1alpha1.ReasonReplacing, messageOutdated}
	}
	return v
}

func blindMessage(account string, deleting bool) string {
	m := fmt.Sprintf("Account %q, in which a machine of this Proxy may be, is not in the operator's configuration; put it back.", account)
	if deleting {
		m += " To let this Proxy go without its machine, set the annotation " + v1alpha1.AnnotationAbandon + " to its UID."
	}
	return m
}

// record writes down the machine. providerID stays until the machine is proved gone; the address only as long as it
// serves.
func record(p *v1alpha1.Proxy, s Seen, st Step) {
	k := st.Keep
	if k == nil {
		if !s.waitsForProof(st) {
			p.Status.IP, p.Status.Port = "", 0
		}
		for _, i := range s.Instances { // seen is seen, though it isn't kept: its create is never sent again
			if i.Tags.Incarnation > s.HighWater && i.Tags.Incarnation == s.newest() {
				p.Status.Instance = instanceOf(i)
			}
		}
		return
	}
	p.Status.ProviderID, p.Status.Zone = k.Ref.String(), k.Zone
	p.Status.Instance = instanceOf(*k)
	if st.Cause == "" {
		p.Status.LastFailure = nil
	}
	if k.State != providers.StateRunning {
		p.Status.IP, p.Status.Port = "", 0
		return
	}
	p.Status.IP, p.Status.Port = k.IP, k.Port
	if k.Port == 0 {
		p.Status.Port = p.Spec.ListenPort()
	}
}

func instanceOf(i providers.Instance) *v1alpha1.Instance {
	return &v1alpha1.Instance{Incarnation: i.Tags.Incarnation, Name: i.Name, SpecHash: i.Tags.SpecHash}
}

// waitsForProof reports whether the pass can't yet tell that the machine is gone.
func (s Seen) waitsForProof(st Step) bool {
	return st.Do == Wait && (st.Cause == CauseVanished || (s.Blind != "" && !s.Deleting))
}

// patchStatusIfChanged is the only writer of status: one patch a pass, none if nothing changed. It takes no lock where a
// look told what Ready is: the status of a busy Proxy would storm with conflicts, and the next pass mends what an old view
// wrote. Where Ready stays as it was read, the patch would bring it back with the other conditions, however old the view
// (they are one list): there it does, and a conflict is another pass.
func (r *ProxyReconciler) patchStatusIfChanged(ctx context.Context, base, p *v1alpha1.Proxy) error {
	if !p.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer) {
		return nil // let go: it is gone, or belongs to others
	}
	p.Status.ObservedGeneration = base.Generation
	if saysNothing(p) {
		c := &cond{metav1.ConditionUnknown, v1alpha1.ReasonProvisioning, messageUnknown}
		verdict{unknown: c, reconciling: c}.apply(p)
	}
	r.beginHealth(p)
	p.Status.Phase = computePhase(p)
	dateConditions(base.Status.Conditions, p.Status.Conditions, r.Clock.Now())
	if equality.Semantic.DeepEqual(base.Status, p.Status) && !r.off(GuardEqualStatus) {
		return nil
	}
	from := p.DeepCopy()
	from.Status = base.Status
	if !r.off(GuardGeneration) {
		from.Status.ObservedGeneration, from.Status.Phase = noGeneration, ""
	}
	patch := client.MergeFrom(from)
	if !r.off(GuardOldReady) && sameReady(base, p) {
		patch = client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
	}
	written := p.DeepCopy()
	if err := r.Status().Patch(ctx, written, patch); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil // deleted meanwhile; there is nobody to tell
		}
		return fmt.Errorf("patch status: %w", err)
	}
	r.memory.wrote(written)
	r.publish(ctx, base, p)
	return nil
}

// dateConditions gives each condition the time of its last change. What a pass took back itself didn't change, and the time is
// the clock's, in whole seconds as the API server keeps it: apimachinery's own would be the wall's.
func dateConditions(was, is []metav1.Condition, now time.Time) {
	for i := range is {
		is[i].LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
		if b := meta.FindStatusCondition(was, is[i].Type); b != nil && b.Status == is[i].Status {
			is[i].LastTransitionTime = b.LastTransitionTime
		}
	}
}

// noGeneration is what no object has. A patch from it always carries observedGeneration: the conditions of an old view are
// told as what they are, of an older generation, and nobody takes the newest one for done (kstatus). Phase goes with them.
const noGeneration = -1

// saysNothing reports whether the pass failed before it could tell anything of this generation. kstatus takes an object
// for done that has no Ready, or one that is True of an older generation and nothing beside it.
func saysNothing(p *v1alpha1.Proxy) bool {
	told := func(kind string) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, kind)
		return c != nil && (c.ObservedGeneration == p.Generation || (kind == v1alpha1.ConditionReady && c.Status != metav1.ConditionTrue))
	}
	return !told(v1alpha1.ConditionReady) && !told(v1alpha1.ConditionReconciling) && !told(v1alpha1.ConditionStalled)
}

// sameReady reports whether the pass tells of Ready only what was read, or that it can't tell: that no request has ever got
// through, whatever the reason, is what a new process says of a machine whose Ready its view doesn't show.
func sameReady(base, p *v1alpha1.Proxy) bool {
	was := meta.FindStatusCondition(base.Status.Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if is == nil || is.Status == metav1.ConditionUnknown || is.Reason == v1alpha1.ReasonProbing {
		return true
	}
	healthy := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	if healthy != nil && healthy.Status == metav1.ConditionUnknown && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProvisioned) {
		return true
	}
	return was != nil && was.Status == is.Status && was.Reason == is.Reason
}

// computePhase tells in one word, for humans, what the conditions say.
func computePhase(p *v1alpha1.Proxy) v1alpha1.Phase {
	reason := ""
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned); c != nil {
		reason = c.Reason
	}
	switch {
	case !p.DeletionTimestamp.IsZero():
		return v1alpha1.PhaseDeleting
	case meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady):
		return v1alpha1.PhaseReady
	case meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionHealthy), brokenFromTheStart(p):
		return v1alpha1.PhaseUnhealthy
	case reason == v1alpha1.ReasonCreated:
		return v1alpha1.PhaseProvisioning
	case reason == v1alpha1.ReasonPermanentError:
		return v1alpha1.PhaseFailed
	case reason == v1alpha1.ReasonReplacing:
		return v1alpha1.PhaseReplacing
	case reason == v1alpha1.ReasonProvisioning, reason == v1alpha1.ReasonBootProblem:
		return v1alpha1.PhaseProvisioning
	default:
		return v1alpha1.PhasePending
	}
}
