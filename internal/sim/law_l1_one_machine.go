// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	twinLife = 5 * time.Minute // of a machine that came of a create whose answer was lost
	runaway  = 12              // machines of one Proxy in one run are a loop that makes machines
)

func lawOneMachine() law {
	return law{"L1", "one machine a Proxy; a twin of an unanswered create lives at most 5 minutes; no loop makes machines", func() check {
		since := map[string]time.Time{}
		return func(w *World, _ *call) string {
			alive := map[string][]providers.Instance{}
			for _, i := range w.all {
				if i.Tags.Installation == installation && i.State.Alive() {
					alive[i.Tags.OwnerUID] = append(alive[i.Tags.OwnerUID], i)
				}
			}
			for uid, twins := range alive {
				if why := w.twins(uid, twins, since); why != "" {
					return why
				}
			}
			return ""
		}
	}}
}

func (w *World) twins(uid string, twins []providers.Instance, since map[string]time.Time) string {
	if w.letGo[uid] {
		return ""
	}
	if n := w.cloud.Creates(uid); n > runaway {
		return fmt.Sprintf("%d machines were made for one Proxy", n)
	}
	if len(twins) < 2 {
		delete(since, uid)
		return ""
	}
	if !w.doubtful(uid, twins) {
		return fmt.Sprintf("%d machines, and no create is unanswered: %s and %s", len(twins), twins[0].Ref, twins[1].Ref)
	}
	if _, ok := since[uid]; !ok {
		since[uid] = w.now()
	}
	w.hadTwins = true
	if d := w.now().Sub(since[uid]); d > twinLife && !w.now().Before(w.calm.Add(twinLife)) {
		return fmt.Sprintf("twins for %s: %s and %s", d, twins[0].Ref, twins[1].Ref)
	}
	return ""
}

// doubtful reports whether twins can come about: nobody can tell what became of a create, or knows of a machine.
func (w *World) doubtful(uid string, twins []providers.Instance) bool {
	return w.beyond != "" || w.orphans[uid] != "" || slices.ContainsFunc(twins, func(i providers.Instance) bool {
		m := w.made[i.Name]
		return m != nil && (m.answered < m.sent || m.astray)
	})
}
