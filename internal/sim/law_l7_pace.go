// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	paceWindow = 5 * time.Minute
	paceLimit  = 20 // creates of one Proxy that a backoff would never reach in that time
)

func lawPace() law {
	return law{"L7 pace", "creates that fail are backed off", func() check {
		sent := map[types.NamespacedName][]time.Time{}
		return func(_ *World, c *call) string {
			if c == nil || c.op != Create {
				return ""
			}
			at := append(sent[c.key], c.at)
			for c.at.Sub(at[0]) > paceWindow {
				at = at[1:]
			}
			sent[c.key] = at
			if len(at) > paceLimit {
				return fmt.Sprintf("%d creates within %s", len(at), paceWindow)
			}
			return ""
		}
	}}
}
