// SPDX-License-Identifier: Apache-2.0

package sim

// orphanActs are what users do to machines past their Proxies, and what they say to the collector.
func orphanActs() []act {
	return []act{
		// Machines are left of Proxies that are long gone: an earlier bug, a backup, somebody who took finalizers off.
		{"orphans", func(w *World, n int) { w.plantOrphans(n) }, 0, false},
		// What is left of one has ended, and costs still: a disk, an address.
		{"leftover", func(w *World, n int) {
			for _, ref := range w.plantOrphans(n) {
				w.cloud.Terminate(ref)
			}
		}, 0, false},
		// A person copies the labels of our machine to one of theirs.
		{"relabel", func(w *World, _ int) {
			p := w.first()
			if p == nil {
				return
			}
			for _, i := range w.machines(p) {
				w.foreign = append(w.foreign, w.cloud.Plant(i.Ref.Account, i.Zone, "theirs", i.Tags))
				w.copied++
				return
			}
		}, 0, false},
		{"confirm", func(w *World, _ int) { w.confirm() }, 0, false},
	}
}
