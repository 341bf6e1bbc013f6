// SPDX-License-Identifier: Apache-2.0

package sim

import "fmt"

func lawDeadline() law {
	return law{"deadline", "nothing is sent after the intent's deadline; whoever reads the ledger later counts on it", plain(func(w *World, c *call) string {
		if c == nil || c.op != Create || c.intent.IsZero() {
			return ""
		}
		if late := c.at.Add(c.by.skew).Sub(c.intent.Add(w.profile.Traits.Deadline())); late > c.op.took() {
			return fmt.Sprintf("a create was sent %s after its deadline", late)
		}
		return ""
	})}
}
