// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

func lawNoNeedlessDelete() law {
	return law{"L4", "the only machine that runs and is wanted isn't deleted", plain(func(w *World, c *call) string {
		if c == nil || c.op != Delete || c.machine == nil || c.machine.State != providers.StateRunning {
			return ""
		}
		// What a user changed since the pass read the Proxy live can't be known to it.
		if live := c.by.pass.live; live > 0 && c.user > live {
			return ""
		}
		return w.needless(c)
	})}
}

func (w *World) needless(c *call) string {
	p := w.owner(*c.machine)
	if p == nil || !p.DeletionTimestamp.IsZero() {
		return ""
	}
	for _, i := range w.machines(p) {
		if i.Ref != c.ref && i.State == providers.StateRunning && w.wanted(p, i) == "" {
			return "" // its twin
		}
	}
	if w.secret() == nil {
		return "a machine that runs is deleted, and the Secret is gone to make another"
	}
	switch w.wanted(p, *c.machine) {
	case "":
		if w.blamed(c) {
			return ""
		}
		return "it runs, is wanted, and is deleted: " + c.ref.String()
	case unwell:
		return w.tooSoon(*c.machine)
	default:
		return ""
	}
}

// replaceAsked is the time before which machines are to be replaced; zero: none.
func (w *World) replaceAsked(p *v1alpha1.Proxy) time.Time {
	at, err := time.Parse(time.RFC3339, p.Annotations[v1alpha1.AnnotationReplaceRequestedAt])
	if err != nil || at.After(w.now()) {
		return time.Time{}
	}
	return at
}
