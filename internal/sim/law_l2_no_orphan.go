// SPDX-License-Identifier: Apache-2.0

package sim

func lawNoOrphan() law {
	return law{"L2", "a Proxy never vanishes while a machine of it exists or a create for it is under way", plain(func(w *World, _ *call) string {
		for _, i := range w.all {
			if !w.orphan(i) {
				continue
			}
			if w.left = w.excusedOrphan(i.Tags.OwnerUID); w.left == "" {
				return "the Proxy of " + i.Ref.String() + " is gone"
			}
		}
		for _, r := range w.cloud.InFlight() {
			if w.excusedOrphan(r.Tags.OwnerUID) == "" && !w.exists(r.Tags.OwnerUID) {
				return "the Proxy of a create under way is gone"
			}
		}
		return ""
	})}
}

func (w *World) exists(uid string) bool {
	for _, p := range w.api.Proxies() {
		if string(p.UID) == uid {
			return true
		}
	}
	return false
}

// Why a machine may be there without its Proxy, until the collector has found it.
const (
	leftPlanted = "it was there before"
	leftLetGo   = "a user let it go"
)

// excusedOrphan tells why machines of an owner may be without it; empty: they may not.
func (w *World) excusedOrphan(uid string) string {
	if w.letGo[uid] {
		return leftLetGo
	}
	return w.orphans[uid]
}
