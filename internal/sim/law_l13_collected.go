// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// collectedWithin is how long a machine may be there without a Proxy: until it is old, three sweeps, and its way out.
func (w *World) collectedWithin() Duration {
	return leastAge + 3*sweepEvery + 2*w.profile.Traits.Lag + w.profile.Leave + 30*time.Second
}

func lawCollected() law {
	return law{"L13", "no machine of ours is left without a Proxy for long", func() check {
		since := map[providers.Ref]time.Time{}
		return func(w *World, _ *call) string {
			for _, i := range w.all {
				if !w.orphan(i) {
					delete(since, i.Ref)
					continue
				}
				if _, known := since[i.Ref]; !known {
					since[i.Ref] = w.now()
				}
				from := since[i.Ref]
				for _, t := range []time.Time{w.calm.Add(w.slack()), w.confirmed, w.noted} {
					if t.After(from) {
						from = t
					}
				}
				if d := w.now().Sub(from); d > w.collectedWithin() {
					return fmt.Sprintf("for %s %s has been there without a Proxy", d, i.Ref)
				}
			}
			return ""
		}
	}}
}

// collecting is what the collector adds to the time in which all must be well.
func (w *World) collecting() Duration {
	if w.left == "" && w.noted.IsZero() {
		return 0
	}
	return w.collectedWithin() + personTakes + 2*sweepEvery
}
