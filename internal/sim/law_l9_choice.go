// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// chosen is the machines that were taken down though they could have stayed, by the UIDs of their Proxies.
type chosen struct {
	ready map[providers.Ref]bool // was Ready once
	down  map[string]int64       // incarnation of the machine whose successor isn't Ready yet
}

func lawChoice() law {
	return law{"L9", "at most a tenth of a namespace's Proxies, and at least one, are without a machine by our choice", func() check {
		d := chosen{map[providers.Ref]bool{}, map[string]int64{}}
		return func(w *World, c *call) string {
			switch {
			case c == nil:
			case c.op == Status && c.proxy != nil:
				d.told(c.proxy)
			case c.op == Delete && c.machine != nil && !c.by.pass.sweep:
				return d.taken(w, c)
			}
			return ""
		}
	}}
}

func (d chosen) told(p *v1alpha1.Proxy) {
	if !is(p, v1alpha1.ConditionReady) {
		return
	}
	if ref, err := providers.ParseRef(p.Status.ProviderID); err == nil {
		d.ready[ref] = true
	}
	if of, down := d.down[string(p.UID)]; down && p.Status.Instance != nil && p.Status.Instance.Incarnation > of {
		delete(d.down, string(p.UID))
	}
}

func (d chosen) taken(w *World, c *call) string {
	for _, q := range w.api.Proxies() {
		d.told(q) // also what a process wrote that was killed before it had the answer
	}
	p := w.owner(*c.machine)
	if p == nil || !p.DeletionTimestamp.IsZero() || c.machine.State != providers.StateRunning || !d.ready[c.ref] || !w.leaves(c.ref) {
		return ""
	}
	d.down[string(p.UID)] = max(d.down[string(p.UID)], c.machine.Tags.Incarnation)
	fleet, down := d.count(w)
	if down > max(1, fleet/10) && !c.by.retired && len(w.procs) == 1 {
		return fmt.Sprintf("%d of %d Proxies are without a machine, by our choice", down, fleet)
	}
	return ""
}

// count is how many Proxies there are, and how many of them are down by choice.
func (d chosen) count(w *World) (fleet, down int) {
	for _, q := range w.api.Proxies() {
		if !q.DeletionTimestamp.IsZero() {
			continue
		}
		fleet++
		if d.down[string(q.UID)] > 0 {
			down++
		}
	}
	return fleet, down
}

// leaves reports whether a machine is on its way out, or gone.
func (w *World) leaves(ref providers.Ref) bool {
	for _, i := range w.all {
		if i.Ref == ref {
			return i.State == providers.StateDeleting
		}
	}
	return true
}
