// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/providertest"
)

// noon is when every test begins.
var noon = time.Date(2026, 8, 7, 12, 0, 0, 0, time.UTC)

func TestContract(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					providertest.Run(t, providertest.Harness{Open: func(testing.TB) providertest.World {
						clk := clocktesting.NewFakeClock(noon)
						return world(New(p, clk, seed), clk)
					}})
				})
			}
		})
	}
}

// world is a model cloud as the conformance suite wants it, with every hook.
func world(c *Cloud, clk *clocktesting.FakeClock) providertest.World {
	const account = "model"
	return providertest.World{
		Process: func() providers.Provider { return c.Account(account) },
		Account: account, Zones: c.profile.Zones, PageSize: c.profile.PageSize,
		Pass:   clk.Step,
		Exists: c.Exists,
		Count:  func() int { return len(c.All()) },
		Plant: func(zone, name string) func() bool {
			ref := c.PlantForeign(account, zone, name)
			return func() bool {
				return slices.ContainsFunc(c.All(), func(i providers.Instance) bool { return i.Ref == ref && i.State.Alive() })
			}
		},
		Stop:       func(ref providers.Ref) { c.Stop(ref) },
		Vanish:     func(ref providers.Ref) { c.Vanish(ref) },
		LoseCreate: func() { c.next(OpCreate, Fault{LoseAnswer: true}) },
		LoseDelete: func() { c.next(OpDelete, Fault{LoseAnswer: true}) },
		LateCreate: func() { c.next(OpCreate, Fault{Late: c.profile.Traits.Deadline()}) },
		FailPage:   func(page int) { c.next(OpList, Fault{FailPage: page}) },
		Refuse:     refusals(c),
		Interrupt:  c.interrupt,
		Elsewhere:  func() (providers.Provider, string) { return c.Account("other"), "other" },
	}
}

// next is what goes wrong with the next call of an op.
func (c *Cloud) next(op Op, f Fault) {
	c.SetDoor(func(k Call) Fault {
		if k.Op != op {
			return Fault{}
		}
		c.SetDoor(nil)
		return f
	})
}

// interrupt calls f before the next create is sent, or after it took effect.
func (c *Cloud) interrupt(step int, f func()) func() bool {
	reached := false
	hit := func() { reached = true; f() }
	c.SetDoor(func(k Call) Fault {
		if k.Op != OpCreate {
			return Fault{}
		}
		c.SetDoor(nil)
		switch step {
		case 0:
			hit()
		case 1:
			return Fault{After: hit}
		}
		return Fault{}
	})
	return func() bool { return reached }
}

func refusals(c *Cloud) map[providers.ErrorClass]func(bool) {
	out := map[providers.ErrorClass]func(bool){}
	for _, class := range providers.Classes() {
		out[class] = func(on bool) {
			if on {
				c.SetDown(class)
			} else {
				c.SetDown("")
			}
		}
	}
	out[providers.QuotaExceeded] = func(on bool) {
		if on {
			c.SetQuota(1)
		} else {
			c.SetQuota(-1)
		}
	}
	out[providers.Capacity] = func(on bool) {
		for _, zone := range append([]string{""}, c.profile.Zones...) {
			c.SetFull(zone, on)
		}
	}
	return out
}
