// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	leastAge = 10 * time.Minute // of an orphan
	leastGap = time.Minute      // between the two sweeps that saw it
)

// sweepSight is the first list of a process's sweeps in a row that showed a machine.
type sweepSight struct {
	by  *process
	ref providers.Ref
}

func lawSweep() law {
	return law{"L3 sweep", "a sweep deletes old machines alone, seen in two sweeps, whose Proxies are gone, and few unless a person agrees", func() check {
		first := map[sweepSight]time.Time{}
		deleted := 0
		return func(w *World, c *call) string {
			switch {
			case c == nil || !c.by.pass.sweep:
				return ""
			case c.op == List:
				deleted = 0
				w.sighted(c, first)
				return ""
			case c.op != Delete || c.machine == nil:
				return ""
			}
			deleted++
			switch i := *c.machine; {
			case w.owner(i) != nil:
				return "a sweep deletes a machine whose Proxy exists: " + i.Ref.String()
			case w.away[i.Tags.OwnerUID]:
				return "a sweep deletes a machine whose Proxy is only lost: " + i.Ref.String()
			case c.at.Add(c.by.skew).Sub(i.CreatedAt) <= leastAge:
				return fmt.Sprintf("a sweep deletes a machine that is %s old", c.at.Sub(i.CreatedAt))
			case !w.seenBefore(c, first):
				return "a sweep deletes a machine that it has just seen for the first time: " + i.Ref.String()
			case deleted > max(1, w.ours(c.in)/10) && w.confirmed.IsZero():
				return fmt.Sprintf("a sweep deletes %d machines, and nobody has agreed", deleted)
			}
			return ""
		}
	}}
}

// sighted notes what a list of a sweep showed. What it didn't show is forgotten; a list that failed shows nothing.
func (w *World) sighted(c *call, first map[sweepSight]time.Time) {
	if c.err != nil {
		return
	}
	shown := map[providers.Ref]bool{}
	for _, i := range c.listed {
		s := sweepSight{c.by, i.Ref}
		shown[i.Ref] = true
		if _, known := first[s]; !known {
			first[s] = c.at
		}
	}
	for s := range first {
		if s.by == c.by && s.ref.Account == c.in && !shown[s.ref] {
			delete(first, s)
		}
	}
}

// seenBefore reports whether an earlier sweep of the process has seen the machine.
func (w *World) seenBefore(c *call, first map[sweepSight]time.Time) bool {
	at, ok := first[sweepSight{c.by, c.ref}]
	return ok && c.at.Sub(at) >= leastGap
}

// ours counts the machines of this installation in an account.
func (w *World) ours(account string) int {
	n := 0
	for _, i := range w.all {
		if i.Ref.Account == account {
			n++
		}
	}
	return n
}
