// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/api"
)

const leftUnheld = "its Proxy went in the moment of its finalizer"

// unheld is a Proxy that went in the moment of its first finalizer, and which process is about to make its machine.
type unheld struct {
	at  time.Time
	key types.NamespacedName
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
			w.vanished = true
			w.orphans[string(p.UID)] = leftUnheld
			if p.Annotations[v1alpha1.AnnotationIntent] == "" && p.Status.ProviderID == "" && !w.sentFor(string(p.UID)) {
				w.unheld[string(p.UID)] = unheld{w.now(), c.key, w.born}
			}
			w.api.Drop(c.key)
			return nil
		}
	}}}
}

// lawUnheld is stricter than L13: no sweep is needed where the process that asked for the machine is still there. A machine
// that was seen before may be that of a Proxy which is only lost, and one whose Proxy's name was given to another isn't
// remembered: those are the collector's.
func lawUnheld() law {
	return law{"L2 unheld", "who asked for a machine whose Proxy went in that moment removes it", plain(func(w *World, _ *call) string {
		for _, i := range w.all {
			u, ok := w.unheld[i.Tags.OwnerUID]
			if !ok || u.run != w.born || !w.orphan(i) {
				continue
			}
			if w.api.Newest(api.Proxies, u.key) != nil {
				delete(w.unheld, i.Tags.OwnerUID)
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
