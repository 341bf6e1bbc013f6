// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// cacheFaults make the caches of a process lag.
func cacheFaults() []kind {
	return []kind{
		// The watch stands still, or is broken and listed anew afterwards: what comes in between is seen as one change.
		{name: "lag", args: []int{3, 40, 200}, hits: anyCall, perArg: true, strike: func(w *World, c *call, n int) {
			c.by.frozen = w.now().Add(seconds(n))
		}},
		// An event isn't seen until the next one comes, or by the list that comes in the end.
		{name: "hold", hits: anyCall, lasting: 2 * time.Minute, strike: func(w *World, c *call, _ int) {
			p := c.by
			p.held = 1
			w.later(2*time.Minute, func() { p.held = 0; p.deliver() })
		}},
	}
}
