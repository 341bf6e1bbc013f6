// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// twoPolls is how long Ready may say what isn't so any more: two looks a minute apart, and the calls.
const twoPolls = 2*time.Minute + 10*time.Second

// listed is how old a list may be when it is used: it is shared for a second, and the calls take time.
const listed = 2 * time.Second

func lawReadyIsTrue() law {
	return law{"L5", "Ready is written when a look showed that the machine runs at that address, shows a change within two polls, and doesn't end for less", func() check {
		lies := map[string]time.Time{}
		return func(w *World, c *call) string {
			w.noteRunning()
			if c != nil && c.op == Status && c.proxy != nil {
				if why := w.readyWritten(c); why != "" {
					return why
				}
			}
			for _, p := range w.api.Proxies() {
				if why := w.readyLies(p, lies); why != "" {
					return why
				}
			}
			return ""
		}
	}}
}

// noteRunning notes since when machines run.
func (w *World) noteRunning() {
	for _, i := range w.all {
		_, known := w.runs[i.Ref]
		switch {
		case i.State != providers.StateRunning:
			w.runs[i.Ref] = never
		case !known || w.runs[i.Ref].Equal(never):
			w.runs[i.Ref] = w.now()
		}
	}
}

// never is later than any run.
var never = start.Add(1000 * time.Hour)

// readyWritten judges a write of status by what the cloud told this process.
func (w *World) readyWritten(c *call) string {
	if is(c.proxy, v1alpha1.ConditionReady) {
		s := c.proxy.Status
		ref, _ := providers.ParseRef(s.ProviderID)
		told, ok := w.told[reading{ref, s.IP}]
		if slices.Contains(w.foreign, ref) && c.was.Status.ProviderID == s.ProviderID {
			return "" // a user wrote that while the pass ran; law L3 is about the operator
		}
		if changedReady(c) && (!ok || c.at.Sub(told) > w.profile.Traits.Lag+time.Minute) && !w.provedAt(ref, s.IP) {
			return fmt.Sprintf("Ready is written of %s at %q, and no look showed it", s.ProviderID, s.IP)
		}
		return ""
	}
	return w.readyEnded(c)
}

// provedAt reports whether the machine runs at that address and has answered: while the cloud tells nothing, that is what
// probes prove.
func (w *World) provedAt(ref providers.Ref, ip string) bool {
	return w.plan.Probe && !w.probes.answered[ref].IsZero() && slices.ContainsFunc(w.all, func(i providers.Instance) bool {
		return i.Ref == ref && i.IP == ip && i.State == providers.StateRunning
	})
}

// readyEnded judges the end of Ready by the truth.
func (w *World) readyEnded(c *call) string {
	if c.by.retired || len(w.procs) > 1 { // an old leader's view; the new one mends it at once
		return ""
	}
	if c.was == nil || !is(c.was, v1alpha1.ConditionReady) || !c.proxy.DeletionTimestamp.IsZero() {
		return ""
	}
	// For as long as reads lag, a new process can't know that it runs already. What counts is when the write was sent, not
	// when it was answered.
	for _, i := range w.all {
		if w.plan.Probe && i.IP != c.was.Status.IP { // nobody has been asked there yet
			continue
		}
		if i.Ref.String() == c.was.Status.ProviderID && c.at.Sub(w.runs[i.Ref]) > w.profile.Traits.Lag+listed && w.wanted(c.proxy, i) == "" {
			return "Ready ends: " + readyOf(c.proxy) + ", and the machine runs as wanted"
		}
	}
	return ""
}

func changedReady(c *call) bool {
	return c.was == nil || !is(c.was, v1alpha1.ConditionReady) || c.was.Status.ProviderID != c.proxy.Status.ProviderID || c.was.Status.IP != c.proxy.Status.IP
}

// readyLies judges what status says by the truth.
func (w *World) readyLies(p *v1alpha1.Proxy, lies map[string]time.Time) string {
	fine := !is(p, v1alpha1.ConditionReady) || p.Annotations[v1alpha1.AnnotationPaused] == "true"
	for _, i := range w.all {
		fine = fine || (i.Ref.String() == p.Status.ProviderID && i.State == providers.StateRunning && i.IP == p.Status.IP)
	}
	if fine {
		delete(lies, string(p.UID))
		return ""
	}
	since, ok := lies[string(p.UID)]
	if !ok || since.Before(w.calm) {
		since = w.now()
		if since.Before(w.calm) {
			since = w.calm
		}
		lies[string(p.UID)] = since
	}
	if d := w.now().Sub(since); d > twoPolls+w.profile.Traits.Lag+w.slack() {
		return fmt.Sprintf("for %s Ready has told of a machine that doesn't run at %s", d, p.Status.IP)
	}
	return ""
}

// slack is what faults may add to a bound: the wait that their answer asks for. What a user changes afterwards lifts it.
func (w *World) slack() Duration {
	var d Duration
	if w.lifted.After(w.struck) && w.lifted.After(w.calm.Add(-time.Second)) {
		return d
	}
	for _, f := range w.plan.Faults {
		d += findFault(f.Kind).patience
	}
	return d * Duration(w.born) // each new process may have to wait again
}

func lawConditions() law {
	return law{"L5 conditions", "conditions are well formed and tell of a generation that was", plain(func(_ *World, c *call) string {
		// What was meant for an object that is gone can land on the next one of that name; the next pass mends it.
		if c == nil || c.op != Status || c.proxy == nil || c.uid != c.proxy.UID {
			return ""
		}
		p := c.proxy
		if p.Status.ObservedGeneration > p.Generation {
			return "observedGeneration is ahead of generation"
		}
		// What an old view writes on a Proxy that is being deleted since is mended by the next pass.
		if ready := is(p, v1alpha1.ConditionReady); p.DeletionTimestamp.IsZero() && ready != (p.Status.Phase == v1alpha1.PhaseReady) {
			return fmt.Sprintf("phase is %s, and Ready %s", p.Status.Phase, readyOf(p))
		}
		for _, k := range p.Status.Conditions {
			if why := malformed(k, p.Generation, c.at); why != "" {
				return why
			}
		}
		return readyTold(p)
	})}
}

// readyTold tells why kstatus, and all that build on it, would take a Proxy for done that isn't.
func readyTold(p *v1alpha1.Proxy) string {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return "there is no Ready"
	}
	if ready.Status == metav1.ConditionTrue && ready.ObservedGeneration < p.Status.ObservedGeneration &&
		!is(p, v1alpha1.ConditionReconciling) && !is(p, v1alpha1.ConditionStalled) {
		return "Ready is of an older generation than the one that was observed, and nothing says so"
	}
	return ""
}

// clocksDiffer is more than any clock of a plan is off. The wall's is months off.
const clocksDiffer = time.Hour

func malformed(k metav1.Condition, generation int64, at time.Time) string {
	switch {
	case k.Reason == "" || k.LastTransitionTime.IsZero():
		return "condition " + k.Type + " has no reason or no time"
	case k.LastTransitionTime.Sub(at) > clocksDiffer:
		return "condition " + k.Type + " is of a time that no process's clock has shown"
	case k.ObservedGeneration > generation:
		return "condition " + k.Type + " is ahead of its generation"
	case (k.Type == v1alpha1.ConditionStalled || k.Type == v1alpha1.ConditionReconciling) && k.Status != metav1.ConditionTrue:
		return "condition " + k.Type + " is there and not True"
	default:
		return ""
	}
}
