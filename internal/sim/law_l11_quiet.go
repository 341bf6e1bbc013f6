// SPDX-License-Identifier: Apache-2.0

package sim

func lawQuiet() law {
	return law{"L11", "in the quiet hour nothing is written and no cloud is changed", plain(func(w *World, c *call) string {
		if w.quiet && c != nil && (c.op.writes() || c.op.mutates()) {
			return "there is a " + string(c.op) + " of " + c.key.Name + " though all is well"
		}
		return ""
	})}
}
