// SPDX-License-Identifier: Apache-2.0

package sim

import "slices"

func lawOwnMachinesAlone() law {
	return law{"L3", "no call changes a machine that isn't this Proxy's", plain(func(w *World, c *call) string {
		if c != nil && c.op == Delete && c.machine != nil {
			t := c.machine.Tags
			if t.Installation != installation || t.Namespace != c.key.Namespace || t.Name != c.key.Name {
				return "delete of " + c.ref.String() + ", which isn't of " + c.key.Name
			}
		}
		if w.foreigners() != len(w.foreign) {
			return "a machine of somebody else is gone"
		}
		return ""
	})}
}

// foreigners counts the living machines of others.
func (w *World) foreigners() int {
	n := 0
	for _, i := range w.all {
		if slices.Contains(w.foreign, i.Ref) && i.State.Alive() {
			n++
		}
	}
	return n
}
