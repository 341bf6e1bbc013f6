// SPDX-License-Identifier: Apache-2.0

package sim

func lawNoOrphan() law {
	return law{"L2", "a Proxy never vanishes while a machine of it exists or a create for it is under way", plain(func(w *World, _ *call) string {
		if w.beyond == beyondUnheld {
			return ""
		}
		for _, i := range w.all {
			if i.Tags.Installation == installation && w.owner(i) == nil && !w.abandoned(i) {
				return "the Proxy of " + i.Ref.String() + " is gone"
			}
		}
		for _, r := range w.cloud.InFlight() {
			if !w.letGo[r.Tags.OwnerUID] && !w.exists(r.Tags.OwnerUID) {
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
