// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/bits"
	"time"
)

// tries are the machines of one Proxy, made from the same, of which none ever answered.
type tries struct {
	hash  string
	first time.Time
	names map[string]bool
}

func lawBoots() law {
	return law{"L7 boots", "machines that never come up are made at intervals that double", func() check {
		of := map[string]*tries{}
		return func(w *World, c *call) string {
			if c == nil || c.op != Create || !w.plan.Probe {
				return ""
			}
			t := c.request.Tags
			is := of[t.OwnerUID]
			if is == nil || is.hash != t.SpecHash || w.anyServed(is.names) {
				is = &tries{t.SpecHash, c.at, map[string]bool{}}
				of[t.OwnerUID] = is
			}
			is.names[c.request.Name] = true
			most := w.born + bits.Len64(uint64(c.at.Sub(is.first)/bootDeadline+1)) //nolint:gosec // G115: never negative
			for _, f := range w.faults {
				most += findFault(f.Kind).costs
			}
			if n := len(is.names); n > most {
				return fmt.Sprintf("%d machines within %s, and none ever answered", n, c.at.Sub(is.first))
			}
			return ""
		}
	}}
}

// anyServed reports whether a request got through one of the machines.
func (w *World) anyServed(names map[string]bool) bool {
	for name := range names {
		if w.made[name].served {
			return true
		}
	}
	return false
}
