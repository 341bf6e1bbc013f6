// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// admit asks the account's guards whether a create would be sent now, in the first of the wanted zones that has place,
// and returns that zone. Nothing is written for a create that is held: each intent is a write, and a fleet that waits for
// quota would write without end.
func (r *ProxyReconciler) admit(p *v1alpha1.Proxy, s Seen, in Intent) (string, error) {
	a, ok := r.Providers[in.Account].Provider.(providers.Admitter)
	if !ok {
		return in.Zone, nil
	}
	var first error
	for _, in.Zone = range s.zonesFrom(in.Zone) {
		err := a.Admit(r.request(p, s.Want, in))
		if err == nil {
			return in.Zone, nil
		}
		first = cmp.Or(first, err)
		if c := providers.MutationClass(err); c != providers.Capacity && c != providers.QuotaExceeded {
			break // what holds it back is not the zone
		}
	}
	return "", first
}

// zonesFrom lists the wanted zones, each once, in the order in which they are tried from the given one on.
func (s Seen) zonesFrom(zone string) []string {
	zones := s.Want.Candidates
	for n, z := range zones {
		if z == zone {
			return append(append([]string{}, zones[n:]...), zones[:n]...)
		}
	}
	return []string{zone}
}

// held tells of a create that a guard of ours holds back, and comes again when the guard says.
func (r *ProxyReconciler) held(ctx context.Context, p *v1alpha1.Proxy, account string, err error) (ctrl.Result, error) {
	pe := providerError(err)
	m := heldRemedy(pe)
	log.FromContext(ctx).V(1).Info("create is held back", "code", pe.Code, "after", pe.RetryAfter)
	c := &cond{metav1.ConditionFalse, m.reason, fmt.Sprintf("Account %q %s", account, m.message)}
	verdict{provisioned: c, reconciling: c}.withoutSuccessor(p).apply(p)
	res := again(pe.RetryAfter)
	res.Priority = ptr.To(priorityWaiting)
	return res, nil
}

// heldRemedy says what a refusal by a guard means to the user. Its messages differ from those for the cloud's own words:
// no cloud was asked.
func heldRemedy(pe *providers.Error) remedy {
	switch {
	case pe.Code == providers.CodeMaxInstances && pe.Class == providers.QuotaExceeded: // else nobody knows yet how many there are
		return remedy{reason: v1alpha1.ReasonQuotaExceeded,
			message: "holds as many machines as its limits.maxInstances in the operator's configuration allows; raise it or remove Proxies."}
	case pe.Code == providers.CodeCircuitOpen:
		return remedy{reason: v1alpha1.ReasonProviderError,
			message: "has an API that failed many times in a row; the operator tries with one call at a time."}
	case pe.Code == providers.CodeBackingOff:
		return remedy{reason: v1alpha1.ReasonThrottled, message: remedyFor(providers.Throttled).message}
	case pe.Code == providers.CodeGateClosed:
		return remedy{reason: remedyFor(pe.Class).reason, message: remedyFor(pe.Class).message}
	default: // its turn comes
		return remedy{reason: v1alpha1.ReasonProvisioning, message: "gets the request when its turn comes."}
	}
}

// heldCall comes again when the guard says. Of the machine it tells nothing: what is known of it stays as it is.
func (r *ProxyReconciler) heldCall(p *v1alpha1.Proxy, err error) (ctrl.Result, error) {
	if !p.DeletionTimestamp.IsZero() {
		c := stillLeaving(p)
		verdict{provisioned: &cond{metav1.ConditionFalse, c.reason, c.message}, reconciling: c}.apply(p)
	} else if v := r.unseen(p, verdict{leave: true}); v.ready != nil {
		v.apply(p)
	}
	return again(max(providerError(err).RetryAfter, time.Second)), nil
}
