// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
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
	case err == nil && !w.probes.answered[ref]:
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
		since := w.illSince(i)
		for _, t := range []time.Time{w.probes.disturbed, w.probes.targetDown} { // while the target is down, nobody can tell
			if t.After(since) {
				since = t
			}
		}
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
