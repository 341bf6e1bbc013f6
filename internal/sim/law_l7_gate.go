// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	gateShut  = 5 * time.Minute  // between two creates where there is no room
	gateFreed = 30 * time.Second // after a delete
)

// zoneOf is a zone of an account, as a process knows it.
type zoneOf struct {
	toAccount
	zone string
}

func lawGate() law {
	return law{"L7 gate", "where there was no room, one create asks again every five minutes, or after a delete", func() check {
		next := map[zoneOf]time.Time{}
		return func(w *World, c *call) string {
			switch {
			case c == nil:
			case c.op == Create:
				return w.throughGate(c, next)
			case c.op == Delete && c.err == nil:
				soon := w.now().Add(gateFreed)
				for z, at := range next {
					if z.toAccount == (toAccount{c.by, c.in}) && at.After(soon) {
						next[z] = soon
					}
				}
			}
			return ""
		}
	}}
}

func (w *World) throughGate(c *call, next map[zoneOf]time.Time) string {
	z := zoneOf{toAccount{c.by, c.in}, c.request.Key.Zone}
	if early := next[z].Sub(c.at); early > 0 {
		return fmt.Sprintf("a create is sent %s before the gate of %s opens", early, z.zone)
	}
	if class := providers.MutationClass(c.err); class == providers.QuotaExceeded || class == providers.Capacity {
		next[z] = w.now().Add(gateShut)
	}
	return ""
}
