// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// noticedWithin is how long Ready may tell of a machine that has stopped to answer: three rounds in a row, the later ones
// sooner, and a pass.
const noticedWithin = 3*probeEvery + 10*time.Second

func lawProbed() law {
	return law{"L5 probes", "Ready is written of a machine that answered, and ends within three intervals when it doesn't any more", plain(func(w *World, c *call) string {
		if !w.plan.Probe {
			return ""
		}
		if c != nil && c.op == Status && c.proxy != nil && is(c.proxy, v1alpha1.ConditionReady) {
			if why := w.readyProbed(c.proxy); why != "" {
				return why
			}
		}
		return w.readyIll()
	})}
}

// readyProbed judges a write of Ready.
func (w *World) readyProbed(p *v1alpha1.Proxy) string {
	ref, err := providers.ParseRef(p.Status.ProviderID)
	switch {
	case !is(p, v1alpha1.ConditionHealthy):
		return "Ready is True, and Healthy isn't"
	case err == nil && w.probes.answered[ref].IsZero():
		return "Ready is written of " + ref.String() + ", through which no request has got"
	}
	return ""
}

// readyIll looks for a Ready that is too old.
func (w *World) readyIll() string {
	ready := map[string]bool{}
	for _, i := range w.all {
		if !w.ill(i) || i.State != providers.StateRunning {
			continue
		}
		if len(ready) == 0 {
			for _, p := range w.api.Proxies() {
				ready[p.Status.ProviderID] = is(p, v1alpha1.ConditionReady) && p.Annotations[v1alpha1.AnnotationPaused] != "true"
			}
		}
		if ready[i.Ref.String()] && w.untold(i) {
			w.probes.untold[i.Ref] = w.now()
		}
		since := w.tellsSince(i)
		most := noticedWithin + w.profile.Traits.Lag + w.slack() + Duration(max(1, w.plan.Objects))*3*time.Second
		if w.born > 1 {
			most += 30 * time.Second
		}
		if d := w.now().Sub(since); d > most && ready[i.Ref.String()] {
			return fmt.Sprintf("for %s Ready has told of %s, which doesn't answer", d, i.Ref)
		}
	}
	return ""
}

// tellsSince is since when requests could tell that the machine is ill.
func (w *World) tellsSince(i providers.Instance) time.Time {
	// While the target is down, nobody can.
	return slices.MaxFunc([]time.Time{w.illSince(i), w.probes.disturbed, w.probes.targetDown, w.probes.untold[i.Ref]}, time.Time.Compare)
}

// untold reports whether no process that works can know how to ask through a machine: it was made from other inputs than
// there are now, credentials among them, and nobody has asked through it since they were others. A request with wrong
// credentials proves nothing, so what status says stands (0020) until there is another machine, or the inputs are back.
// A process that has asked through it once knows how, and must go on.
func (w *World) untold(i providers.Instance) bool {
	p := w.owner(i)
	if p == nil || slices.ContainsFunc(w.procs, func(q *process) bool { return q.asked[i.Ref] }) {
		return false
	}
	return !w.possible(p) || w.outdated(p, i) != ""
}

// healing is what probes, and replacements within the budget, add to the time in which all must be well.
func (w *World) healing() Duration {
	n := max(1, w.plan.Objects)
	waves := Duration((n + max(1, n/10) - 1) / max(1, n/10))
	each := w.profile.Leave + w.profile.Boot + 3*w.profile.Traits.Lag + time.Minute
	if !w.plan.Probe {
		return 0
	}
	return heldFor + replaceAfter + bootDeadline + waves*each
}
