// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// possible reports whether a machine can be made from the Proxy's spec as things are.
func (w *World) possible(p *v1alpha1.Proxy) bool {
	if w.secret() == nil {
		return false
	}
	for _, z := range wantedZones(p) {
		if !slices.Contains(w.profile.Zones, z) {
			return false
		}
	}
	return true
}

func wantedZones(p *v1alpha1.Proxy) []string {
	var out []string
	if p.Spec.Location != nil {
		for _, z := range p.Spec.Location.Zones {
			out = append(out, string(z))
		}
	}
	return out
}

// wanted tells why a machine isn't what the Proxy asks for; empty: it is. It compares what the machine was made from with
// the spec, field by field, and knows nothing of hashes.
func (w *World) wanted(p *v1alpha1.Proxy, i providers.Instance) string {
	m := w.made[i.Name]
	zones := wantedZones(p)
	switch {
	case m == nil:
		return "nobody asked for it"
	case m.request.Tags != i.Tags:
		return fmt.Sprintf("its tags are %+v, and it was made for %+v", i.Tags, m.request.Tags)
	case m.at.Before(w.replaceAsked(p)):
		return "another one was asked for"
	case i.Ref.Account != p.Spec.Provider:
		return "it is in account " + i.Ref.Account
	case len(zones) > 0 && !slices.Contains(zones, i.Zone):
		return "it is in zone " + i.Zone
	}
	return cmp.Or(w.outdated(p, i), w.unfit(p, i))
}

// outdated tells why a machine isn't what would be made now; empty: it is.
func (w *World) outdated(p *v1alpha1.Proxy, i providers.Instance) string {
	m := w.made[i.Name]
	switch {
	case m == nil:
		return "nobody asked for it"
	case m.request.Port != p.Spec.ListenPort() || m.request.Protocol != string(p.Spec.ListenProtocol()):
		return fmt.Sprintf("it listens on %d", m.request.Port)
	case w.secret() == nil || m.request.UserData != string(w.secret().Data[secretKey]):
		return "it booted other user data"
	case !maps.EqualFunc(m.request.Labels, p.Spec.Labels, func(a string, b v1alpha1.LabelValue) bool { return a == string(b) }):
		return "its labels are others"
	default:
		return ""
	}
}

// unfit tells why a machine that was made as wanted is to go all the same.
func (w *World) unfit(p *v1alpha1.Proxy, i providers.Instance) string {
	if p.Spec.MaxAge != nil && w.now().Sub(w.made[i.Name].at) >= oldAt(p) {
		return "it is old"
	}
	if _, ailing := w.ailment(i); ailing {
		return unwell
	}
	return ""
}

// unwell is why a machine isn't wanted through which no requests get.
const unwell = "requests don't get through it"

// machines of a Proxy, as they truly are.
func (w *World) machines(p *v1alpha1.Proxy) []providers.Instance {
	var out []providers.Instance
	for _, i := range w.all {
		if owns(p, i) {
			out = append(out, i)
		}
	}
	return out
}

// matches tells why the world isn't what the users ask for; empty: it is.
func (w *World) matches() string {
	w.lookAround()
	for _, p := range w.api.Proxies() {
		if why := w.mismatch(p); why != "" {
			return p.Name + ": " + why
		}
	}
	for _, i := range w.all {
		if w.orphan(i) {
			return "a machine without a Proxy: " + i.Ref.String()
		}
	}
	if len(w.notes()) > 0 {
		return "a stopped sweep waits for a person"
	}
	if n := len(w.cloud.InFlight()); n > 0 {
		return fmt.Sprintf("%d creates under way", n)
	}
	return ""
}

func (w *World) owner(i providers.Instance) *v1alpha1.Proxy {
	for _, p := range w.api.Proxies() {
		if owns(p, i) {
			return p
		}
	}
	return nil
}

func (w *World) mismatch(p *v1alpha1.Proxy) string {
	ms := w.machines(p)
	switch {
	case p.Annotations[v1alpha1.AnnotationPaused] == "true" && is(p, v1alpha1.ConditionStalled):
		return ""
	case p.Annotations[v1alpha1.AnnotationPaused] == "true":
		return "is paused and doesn't say so"
	case !p.DeletionTimestamp.IsZero():
		return "is still there"
	case !w.possible(p):
		return w.mismatchStalled(p, ms)
	case len(ms) != 1:
		return fmt.Sprintf("has %d machines", len(ms))
	case ms[0].State != providers.StateRunning:
		return "its machine is " + string(ms[0].State)
	}
	if why := w.wanted(p, ms[0]); why != "" {
		return "its machine isn't wanted: " + why
	}
	return mismatchStatus(p, ms[0])
}

// mismatchStatus tells what status has to say of a machine that runs as wanted.
func mismatchStatus(p *v1alpha1.Proxy, i providers.Instance) string {
	s := p.Status
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	switch {
	case !is(p, v1alpha1.ConditionReady) || is(p, v1alpha1.ConditionStalled) || is(p, v1alpha1.ConditionReconciling):
		return "its conditions don't say that all is well: " + readyOf(p)
	case s.ObservedGeneration != p.Generation || ready.ObservedGeneration != p.Generation:
		return "its generation isn't observed"
	case s.ProviderID != i.Ref.String() || s.IP != i.IP || s.Port != p.Spec.ListenPort() || s.Zone != i.Zone:
		return fmt.Sprintf("its status tells of another machine: %s %s:%d", s.ProviderID, s.IP, s.Port)
	case !slices.Contains(p.Finalizers, v1alpha1.Finalizer) || p.Annotations[v1alpha1.AnnotationIntent] == "":
		return "has no finalizer, or no ledger"
	}
	return ""
}

// mismatchStalled is for a Proxy from which nothing can be made.
func (w *World) mismatchStalled(p *v1alpha1.Proxy, ms []providers.Instance) string {
	switch {
	case !w.tellsProblem(p):
		return "it doesn't say what is to be mended"
	case p.Status.ObservedGeneration != p.Generation:
		return "its generation isn't observed"
	case len(ms) > 1:
		return fmt.Sprintf("has %d machines", len(ms))
	}
	ready := is(p, v1alpha1.ConditionReady)
	if len(ms) == 0 {
		if ready || p.Status.IP != "" {
			return "it tells of a machine that is gone"
		}
		return ""
	}
	return mismatchLeft(p, ms[0], ready)
}

// mismatchLeft is for the machine that such a Proxy may have left.
func mismatchLeft(p *v1alpha1.Proxy, i providers.Instance, ready bool) string {
	switch {
	case i.State == providers.StateProvisioning || i.State == providers.StateDeleting:
		return "its machine is " + string(i.State)
	case (i.State == providers.StateRunning) != ready:
		return "Ready isn't what the machine is"
	case ready && p.Status.IP != i.IP:
		return "its status tells of another address"
	}
	return ""
}

// tellsProblem reports whether the conditions say what the user is to mend, and nothing else.
func (w *World) tellsProblem(p *v1alpha1.Proxy) bool {
	reason := v1alpha1.ReasonPermanentError
	if w.secret() == nil {
		reason = v1alpha1.ReasonCloudInitError
	}
	stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Reason == reason && !is(p, v1alpha1.ConditionReconciling) &&
		(is(p, v1alpha1.ConditionReady) || strings.HasSuffix(readyOf(p), reason))
}

func is(p *v1alpha1.Proxy, condition string) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, condition)
}

func readyOf(p *v1alpha1.Proxy) string {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return string(metav1.ConditionUnknown)
	}
	return string(c.Status) + " " + c.Reason
}

// orphan reports whether the machine's Proxy is gone.
func (w *World) orphan(i providers.Instance) bool {
	return w.owner(i) == nil && !w.away[i.Tags.OwnerUID]
}
