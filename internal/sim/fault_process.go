// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// processFaults hit the operator itself.
func processFaults() []kind {
	return []kind{
		{name: "crash-before", hits: anyCall, strike: func(*World, *call, int) { panic(crash{}) }},
		{name: "crash-after", hits: sentCalls, strike: func(_ *World, c *call, _ int) {
			c.after = func() error { panic(crash{}) }
		}},
		// Killed, and the next one's caches begin in the past.
		{name: "travel", args: []int{1, 3}, hits: anyCall, strike: func(_ *World, _ *call, n int) { panic(crash{behind: n}) }},
		// Killed while a call is under way, which lands later.
		{name: "crash-late", args: []int{20, 55}, hits: []Op{Create}, perArg: true, costs: 1, strike: func(_ *World, c *call, n int) {
			c.cloud.Late = seconds(n)
			c.after = func() error { panic(crash{}) }
		}},
		{name: "stop-before", hits: sentCalls, strike: func(_ *World, c *call, _ int) { c.by.stopped = true }},
		{name: "stop-after", hits: sentCalls, strike: func(_ *World, c *call, _ int) {
			c.after = func() error { c.by.stopped = true; return errStopped }
		}},
		// The lease is lost while a call is under way: another leader works, then the call and the rest of its pass go on.
		{name: "old-leader", args: []int{5, 50}, hits: anyCall, perArg: true, lasting: time.Second, costs: 1, strike: oldLeader},
		{name: "two-leaders", args: []int{30}, hits: anyCall, perArg: true, strike: twoLeaders},
		// Killed, and the next one's clock is another. Inside a process Go's times are monotonic: there it can't jump.
		{name: "clock", args: []int{300, -300}, hits: anyCall, patience: 6 * time.Minute, strike: func(_ *World, _ *call, n int) {
			panic(crash{skew: seconds(n)})
		}},
		{name: "slow", args: []int{70, 600}, hits: sentCalls, perArg: true, strike: func(w *World, _ *call, n int) { w.sleep(seconds(n)) }},
		{name: "slow-answer", args: []int{70, 600}, hits: sentCalls, perArg: true, strike: func(w *World, c *call, n int) {
			c.after = func() error { w.sleep(seconds(n)); return nil }
		}},
	}
}

func oldLeader(w *World, c *call, n int) {
	if c.by.retired {
		return
	}
	old := c.by
	old.retired = true
	w.procs = append(w.procs, w.process(0))
	w.workUntil(w.now().Add(seconds(n)))
	w.current = c
}

func twoLeaders(w *World, c *call, n int) {
	old := c.by
	w.procs = append(w.procs, w.process(0))
	w.later(seconds(n), func() { w.retire(old) })
}

// retire ends a process, at once or with its pass.
func (w *World) retire(p *process) {
	p.retired = true
	if !p.busy {
		w.replace(p, crash{})
	}
}
