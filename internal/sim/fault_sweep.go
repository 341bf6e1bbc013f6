// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// sweepFaults strike the collector of orphans.
func sweepFaults() []kind {
	reads := []Op{Get, List}
	return []kind{
		// Passes go on while a sweep waits for an answer.
		{name: "overtaken", args: []int{20}, hits: sentCalls, sweeps: true, perArg: true, strike: overtaken},
		// The API server has lost the Proxies for a while, as before the rest of a backup is back.
		{name: "proxies-lost", hits: anyCall, perArg: true, apart: true, strike: func(w *World, _ *call, n int) { w.loseProxies(seconds(n)) }},
		// Neither Get nor lists show any machine, for longer than Traits promise.
		{name: "blind", hits: reads, perArg: true, apart: true, strike: func(w *World, c *call, n int) {
			w.blind = w.now().Add(seconds(n))
			w.outages(c)
		}},
	}
}

func overtaken(w *World, c *call, n int) {
	p, was := c.by, c.by.pass
	p.busy = false
	w.workUntil(w.now().Add(seconds(n)))
	p.busy, p.pass, w.current = true, was, c
	if !slices.Contains(w.procs, p) {
		panic(crash{}) // it ended in one of the passes
	}
}

// loseProxies takes every Proxy away and brings it back as it was, UID and all.
func (w *World) loseProxies(d time.Duration) {
	back := w.api.Lose()
	for _, p := range back {
		w.away[string(p.UID)] = true
	}
	w.later(d, func() {
		for _, p := range back {
			delete(w.away, string(p.UID))
		}
		w.api.Restore(back)
	})
}

// blinded shows a read nothing, and remembers who may lose a machine by it.
func (w *World) blinded(c *call) {
	switch c.op {
	case Get:
		c.cloud.Class = notFound
	case List:
		c.cloud.DropPage = cloud.AllPages
	default:
	}
	for _, p := range w.api.Proxies() {
		if !p.DeletionTimestamp.IsZero() {
			w.orphans[string(p.UID)] = leftBlind
		}
	}
}

const leftBlind = "Get and list were both wrong while it was to be deleted"
