// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

func lawNoSurge() law {
	return law{"L1 surge", "no machine is asked for while another that reads must show is still there", func() check {
		since := map[providers.Ref]time.Time{}
		return func(w *World, c *call) string {
			for _, i := range w.all {
				if _, known := since[i.Ref]; !known {
					since[i.Ref] = w.now()
				}
			}
			if c == nil || c.op != Create || w.beyond != "" || w.orphans[c.request.Tags.OwnerUID] != "" {
				return ""
			}
			for _, i := range w.all {
				if i.Tags.OwnerUID == c.request.Tags.OwnerUID && i.Tags.Installation == installation && i.Name != c.request.Name &&
					c.at.Sub(since[i.Ref]) > w.profile.Traits.Lag+time.Second {
					return "a create, and " + i.Ref.String() + " is still there"
				}
			}
			return ""
		}
	}}
}
