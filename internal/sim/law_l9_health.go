// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// tooSoon tells why a machine through which no requests get isn't to be replaced yet.
func (w *World) tooSoon(i providers.Instance) string {
	ill, _ := w.ailment(i)
	made := w.made[i.Name]
	served := !w.probes.answered[i.Ref].IsZero()
	switch since := w.now().Sub(ill.since); {
	case served && since < replaceAfter:
		return fmt.Sprintf("it is deleted after %s without an answer: %s", since, i.Ref)
	case !served && w.now().Sub(made.at) < bootDeadline:
		return fmt.Sprintf("it is deleted after %s of booting: %s", w.now().Sub(made.at), i.Ref)
	}
	return ""
}

// blamed reports whether the process can't know that it is the target that is down: it has never reached it. What that
// costs is bounded by the budget, and by the boot deadline that doubles.
func (w *World) blamed(c *call) bool {
	return w.plan.Probe && !c.by.reached && w.now().Before(w.probes.targetDown.Add(2*probeEvery))
}

// illDelete is the machine that a call deletes for its health alone; nil: there is none.
func (w *World) illDelete(c *call) *providers.Instance {
	if c == nil || c.op != Delete || c.machine == nil || c.machine.State != providers.StateRunning || c.by.pass.sweep {
		return nil
	}
	if p := w.owner(*c.machine); p == nil || !p.DeletionTimestamp.IsZero() || w.wanted(p, *c.machine) != unwell {
		return nil
	}
	return c.machine
}

// Many are this many, and more than this part of all: they count as one failure of something else.
const (
	manyAtOnce  = 5
	manyPercent = 40
)

func lawHeld() law {
	return law{"L9 held", "where many fell ill at once, none of them is replaced for it in the first five minutes", plain(func(w *World, c *call) string {
		i := w.illDelete(c)
		if i == nil || w.probes.answered[i.Ref].IsZero() {
			return ""
		}
		ill, _ := w.ailment(*i)
		n, fleet := w.fellWith(ill), max(1, w.plan.Objects)
		if d := c.at.Sub(ill.since); d < heldFor && n >= manyAtOnce && n*100 > fleet*manyPercent {
			return fmt.Sprintf("%s is replaced %s after it fell ill, and %d with it", i.Ref, d, n-1)
		}
		return ""
	})}
}

// fellWith counts the machines of ours that fell ill at that moment and weren't replaced since for another reason: a rollout
// that was under way may have been faster than the probes. Who was ill before, and is struck once more, fell before.
func (w *World) fellWith(ill illness) int {
	n := 0
	for _, i := range w.all {
		if own, ailing := w.ailment(i); ailing && own.since.Equal(ill.since) && !w.probes.answered[i.Ref].IsZero() {
			n++
		}
	}
	return n
}

// perHour is how many machines of one Proxy may be replaced for their health within an hour.
const perHour = 12

func lawLoop() law {
	return law{"L9 loop", "no proxy is replaced for its health again and again", func() check {
		deleted := map[string][]time.Time{}
		return func(w *World, c *call) string {
			i := w.illDelete(c)
			if i == nil || !w.leaves(i.Ref) {
				return ""
			}
			uid := i.Tags.OwnerUID
			at := slices.DeleteFunc(append(deleted[uid], c.at), func(t time.Time) bool { return c.at.Sub(t) > time.Hour })
			deleted[uid] = at
			if len(at) > perHour {
				return fmt.Sprintf("%d machines of one Proxy were replaced for their health within an hour", len(at))
			}
			return ""
		}
	}}
}
