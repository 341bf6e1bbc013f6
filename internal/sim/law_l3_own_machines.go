// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

func lawOwnMachinesAlone() law {
	return law{"L3", "no call changes a machine that isn't this Proxy's, and no status comes to name one", plain(func(w *World, c *call) string {
		if w.others != len(w.foreign) {
			return "a machine of somebody else is gone"
		}
		switch {
		case c == nil:
			return ""
		case c.op == Delete && c.machine != nil:
			return w.notOurs(c)
		case c.op == Status && c.was != nil && c.proxy != nil && c.was.Status.ProviderID != c.proxy.Status.ProviderID:
			if w.namesForeign(c.proxy) {
				return "status names somebody else's machine: " + c.proxy.Status.ProviderID
			}
		}
		return ""
	})}
}

// notOurs tells why a machine isn't to be deleted by this call.
func (w *World) notOurs(c *call) string {
	t := c.machine.Tags
	switch {
	case slices.Contains(w.foreign, c.ref):
		return "delete of " + c.ref.String() + ", which is somebody else's"
	case c.by.pass.sweep: // of no Proxy; law L3 sweep says of which
		return ""
	case t.Installation != installation || t.Namespace != c.key.Namespace || t.Name != c.key.Name:
		return "delete of " + c.ref.String() + ", which isn't of " + c.key.Name
	}
	return ""
}

// namesForeign reports whether status names somebody else's machine.
func (w *World) namesForeign(p *v1alpha1.Proxy) bool {
	return slices.ContainsFunc(w.foreign, func(r providers.Ref) bool { return r.String() == p.Status.ProviderID })
}
