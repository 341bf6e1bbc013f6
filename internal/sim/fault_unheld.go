// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"
)

const leftUnheld = "its Proxy went in the moment of its finalizer"

// unheld is a Proxy that went in the moment of its finalizer, and by which process its machine is known.
type unheld struct {
	at  time.Time
	run int // World.born
}

// unheldFaults are of an API server that deletes an object in the moment in which a finalizer arrives: it looked for
// finalizers before, and the patch is answered as if it had come in time (seen with kube-apiserver 1.36).
func unheldFaults() []kind {
	return []kind{{name: "unheld", hits: []Op{Patch}, costs: 1, strike: func(w *World, c *call, _ int) {
		p := w.proxy(c.key)
		if p == nil || len(p.Finalizers) > 0 {
			return
		}
		c.after = func() error {
			w.unheld[string(p.UID)] = unheld{w.now(), w.born}
			w.orphans[string(p.UID)] = leftUnheld
			w.api.Drop(c.key)
			return nil
		}
	}}}
}

// lawUnheld is stricter than L13: no sweep is needed where the process that asked for the machine is still there.
func lawUnheld() law {
	return law{"L2 unheld", "who asked for a machine whose Proxy went in that moment removes it", plain(func(w *World, _ *call) string {
		for _, i := range w.all {
			u, ok := w.unheld[i.Tags.OwnerUID]
			if !ok || u.run != w.born || !w.orphan(i) {
				continue
			}
			from := u.at
			if w.calm.After(from) {
				from = w.calm
			}
			if d := w.now().Sub(from); d > twinLife+w.profile.Leave {
				return fmt.Sprintf("for %s %s has been there", d, i.Ref)
			}
		}
		return ""
	})}
}
