// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// healthFaults are what only probes notice. They are for plans with probes.
func healthFaults() []kind {
	return []kind{
		// The machine takes connections and never answers again.
		{name: "break", hits: anyCall, alive: true, health: true, costs: 1, strike: onMachine(func(w *World, r providers.Ref) { w.fallsIll(r, 0) })},
		{name: "hiccup", args: []int{10, 60, 300}, hits: anyCall, alive: true, health: true, perArg: true, costs: 1, strike: func(w *World, c *call, n int) {
			onMachine(func(w *World, r providers.Ref) { w.fallsIll(r, n) })(w, c, n)
		}},
		// Every so many requests one is lost: less than it takes to be unhealthy.
		{name: "lossy", args: []int{2}, hits: anyCall, alive: true, health: true, strike: func(w *World, c *call, n int) {
			onMachine(func(w *World, r providers.Ref) { w.probes.lossy[r] = n })(w, c, n)
		}},
		// For an hour, whatever machine the Proxy a has answers so many seconds and so many not.
		{name: "flaps", args: []int{40, 90, 200}, hits: anyCall, alive: true, health: true, lasting: time.Hour, costs: perHour, strike: func(w *World, _ *call, n int) {
			f := illness{w.now(), w.now().Add(time.Hour), w.now()}
			onMachine(func(w *World, r providers.Ref) { f = w.newIllness(r, time.Hour) })(w, nil, 0)
			w.probes.flaps, w.probes.turn = f, seconds(n)
			w.ends(time.Hour + penalty)
		}},
		{name: "target-down", args: []int{60, 1200}, hits: anyCall, health: true, perArg: true, strike: func(w *World, _ *call, n int) {
			w.probes.targetDown = w.now().Add(seconds(n))
		}},
		// Every machine falls ill at once: the network between, or a change that all of them took.
		{name: "all-ill", args: []int{0, 200, 900}, hits: anyCall, alive: true, health: true, perArg: true, costs: 1, strike: func(w *World, _ *call, n int) {
			for _, i := range w.cloud.All() {
				if i.Tags.Installation == installation && i.State.Alive() {
					w.fallsIll(i.Ref, n)
				}
			}
		}},
	}
}
