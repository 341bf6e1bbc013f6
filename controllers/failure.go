// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// The waits after errors.
const (
	quotaRetry     = 5 * time.Minute
	deniedRetry    = 5 * time.Minute
	throttledRetry = 30 * time.Second // where the cloud doesn't say
	permanentRetry = 30 * time.Minute // the world changes in ways that no input shows
)

// remedy is what follows from the class of a provider's error.
type remedy struct {
	reason  string
	message string        // after the account's name; a fixed sentence
	stalled bool          // nothing goes on until somebody changes something
	after   time.Duration // 0: the error goes to the queue, which backs off
	latch   bool          // remembered in status until the inputs change
}

// remedyFor is the one table from class to condition, wait and Event.
func remedyFor(class providers.ErrorClass) remedy {
	switch class {
	case providers.QuotaExceeded:
		return remedy{reason: v1alpha1.ReasonQuotaExceeded, after: quotaRetry,
			message: "is full; raise its quota or remove machines. The operator tries again every 5 minutes."}
	case providers.Capacity:
		return remedy{reason: v1alpha1.ReasonCapacityExhausted, after: quotaRetry,
			message: "has no machine to give in the wanted zones; allow more zones in spec.location.zones. The operator tries again every 5 minutes."}
	case providers.Throttled:
		return remedy{reason: v1alpha1.ReasonThrottled, after: throttledRetry,
			message: "asks the operator to slow down. It goes on by itself."}
	case providers.Denied:
		return remedy{reason: v1alpha1.ReasonAccessDenied, after: deniedRetry, stalled: true,
			message: "refuses the operator's credentials or permissions; mend them. The operator tries again every 5 minutes."}
	case providers.Permanent:
		return remedy{reason: v1alpha1.ReasonPermanentError, after: permanentRetry, stalled: true, latch: true,
			message: "refuses the request; change the spec, its Secrets or the account. The operator tries again every 30 minutes."}
	case providers.Ambiguous:
		return remedy{reason: v1alpha1.ReasonProvisioning, after: pollFirst,
			message: "gave no answer to the request; the operator looks for what came of it."}
	case providers.Transient, providers.NotFound:
		return remedy{reason: v1alpha1.ReasonProviderError, message: "has an API that fails; the operator tries again."}
	default: // a class of a newer provider: try again, tell of it
		return remedy{reason: v1alpha1.ReasonProviderError, message: "has an API that fails; the operator tries again."}
	}
}

// createFailed turns the error of a create into conditions and a wait.
func (r *ProxyReconciler) createFailed(ctx context.Context, p *v1alpha1.Proxy, s Seen, in Intent, err error) (ctrl.Result, error) {
	class := providers.MutationClass(err)
	if providers.IsHeld(err) {
		return r.held(ctx, p, in.Account, err)
	}
	m := remedyFor(class)
	calls := r.memory.of(p)
	r.note(ctx, calls, s.Want, err)
	pe := providerError(err)
	if m.after > 0 {
		m.after = max(m.after, pe.RetryAfter)
	}
	now := r.Clock.Now()
	switch {
	case class == providers.Ambiguous:
		m.after = poll(now.Sub(in.At)) // look before anything else; the open intent holds back a second create
	case class == providers.Capacity && s.zonesLeft(in.Zone):
		m.after = requeueSoon
	case m.after == 0:
		calls.hold(s.Want.Inputs, now.Add(max(calls.backoff(), pe.RetryAfter)))
	default:
		calls.hold(s.Want.Inputs, now.Add(m.after))
	}
	v := verdict{provisioned: &cond{metav1.ConditionFalse, m.reason, m.text(in.Account, pe)}}
	if m.stalled {
		v.stalled = v.provisioned
	} else {
		v.reconciling = v.provisioned
	}
	if m.latch {
		p.Status.LastFailure = &v1alpha1.Failure{Class: string(class), Inputs: s.Want.Inputs}
	}
	v.apply(p)
	if m.after > 0 {
		return again(m.after), nil
	}
	return ctrl.Result{}, fmt.Errorf("create instance in %s: %w", in.Account, err)
}

// callFailed turns the error of a look or a delete into conditions and a wait. What is known of the machine stays as it
// is: an error tells nothing about it. On the way out nothing is latched (crossplane/crossplane#315).
func (r *ProxyReconciler) callFailed(ctx context.Context, p *v1alpha1.Proxy, want Want, err error, class providers.ErrorClass) (ctrl.Result, error) {
	if providers.IsHeld(err) {
		return r.heldCall(p, err)
	}
	m := remedyFor(class)
	pe := providerError(err)
	r.note(ctx, r.memory.of(p), want, err)
	text := m.text(accountOf(p, want), pe)
	if !p.DeletionTimestamp.IsZero() && m.stalled {
		text += " To let this Proxy go without its machine, set the annotation " + v1alpha1.AnnotationAbandon + " to its UID."
	}
	v := verdict{}
	switch {
	case m.stalled:
		v.stalled = &cond{metav1.ConditionTrue, m.reason, text}
	case !p.DeletionTimestamp.IsZero():
		v.reconciling = stillLeaving(p)
	default:
		v.leave = true
	}
	v.unknown = &cond{metav1.ConditionUnknown, m.reason, text}
	r.unseen(p, v).apply(p)
	if m.after == 0 || class == providers.Ambiguous {
		return ctrl.Result{}, err
	}
	return again(min(max(m.after, pe.RetryAfter), quotaRetry)), nil
}

// accountOf is the account that a failed call most likely went to, for a message.
func accountOf(p *v1alpha1.Proxy, want Want) string {
	if ref := recordedRef(p); !ref.IsZero() {
		return ref.Account
	}
	if in := readIntent(p); in != nil {
		return in.Account
	}
	return want.Account
}

// text is the condition's message: the account, the vendor's stable code, the fixed sentence or the provider's own advice; never the vendor's words,
// which may hold request ids (crossplane-contrib/provider-aws#69).
func (m remedy) text(account string, pe *providers.Error) string {
	if pe.Field != "" {
		return permanentMessage(account, pe)
	}
	code := ""
	if pe.Code != "" {
		code = " (" + pe.Code + ")"
	}
	if pe.Advice != "" {
		return fmt.Sprintf("Account %q%s: %s", account, code, pe.Advice)
	}
	return fmt.Sprintf("Account %q%s %s", account, code, m.message)
}

func permanentMessage(account string, pe *providers.Error) string {
	if pe.Field == "" {
		return remedyFor(providers.Permanent).text(account, pe)
	}
	return fmt.Sprintf("%s: account %q can't act on it; %s.", pe.Field, account, strings.TrimSuffix(pe.Want, "."))
}

func providerError(err error) *providers.Error {
	var pe *providers.Error
	if errors.As(err, &pe) {
		return pe
	}
	return &providers.Error{}
}

// note logs the failure and keeps the provider's words for the next Event, without secrets and of bounded size. What fails
// in the same words pass after pass is logged once.
func (r *ProxyReconciler) note(ctx context.Context, c *Calls, want Want, err error) {
	text := sanitize(err.Error(), want.Material.UserData, want.Material.Password)
	level := 0
	if text == c.Noted {
		level = 1
	}
	log.FromContext(ctx).V(level).Info("provider call did not succeed", "error", text)
	c.Detail, c.Noted = text, text
}

// sanitize makes a vendor's words fit for log and Event: one line, bounded, without our secrets.
func sanitize(text string, secrets ...string) string {
	for _, s := range secrets {
		for _, line := range append(strings.Split(s, "\n"), s) {
			if line = strings.TrimSpace(line); len(line) >= 4 {
				text = strings.ReplaceAll(text, line, "[hidden]")
			}
		}
	}
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	const limit = 400
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}

// again asks for another pass after d. A wait of nothing would mean "never" to the queue.
func again(d time.Duration) ctrl.Result { return ctrl.Result{RequeueAfter: max(d, requeueSoon)} }
