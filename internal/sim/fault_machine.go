// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/proxy-operator/proxy-operator/providers"
)

// onMachine does something to the machine that lives.
func onMachine(do func(w *World, ref providers.Ref)) func(*World, *call, int) {
	return func(w *World, _ *call, _ int) {
		p := w.first()
		if p == nil {
			return
		}
		for _, i := range w.cloud.All() {
			if owns(p, i) && i.State.Alive() {
				do(w, i.Ref)
				return
			}
		}
	}
}

// machineFaults are what machines do by themselves.
func machineFaults() []kind {
	return []kind{
		{name: "stops", hits: anyCall, alive: true, costs: 1, strike: onMachine(func(w *World, r providers.Ref) { w.cloud.Stop(r) })},
		{name: "ends", hits: anyCall, alive: true, costs: 1, strike: onMachine(func(w *World, r providers.Ref) { w.cloud.Terminate(r) })},
		{name: "vanishes", hits: anyCall, alive: true, costs: 1, strike: onMachine(func(w *World, r providers.Ref) { w.cloud.Vanish(r) })},
		{name: "new-ip", hits: anyCall, alive: true, strike: onMachine(func(w *World, r providers.Ref) { w.cloud.SetIP(r, "10.99.0.1") })},
	}
}
