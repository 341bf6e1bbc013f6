// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// Pairs draws n plans of two faults each from the seed: a story, and two faults that each could strike in its clean run.
// The first may change the run so that the second strikes something else, or nothing.
func (e *Exploration) Pairs(n int, seed uint64) []Plan {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // G404: to be repeated, not to be secret
	out := make([]Plan, 0, n)
	for len(out) < n {
		a := e.Plans[r.IntN(len(e.Plans))]
		b := e.Plans[r.IntN(len(e.Plans))]
		if len(a.Faults) == 0 || len(b.Faults) == 0 || a.Cloud != b.Cloud {
			continue
		}
		second := b.Faults[0]
		second.At = a.Faults[0].At + 1 + r.IntN(30)
		a.Faults = []Happening{a.Faults[0], second}
		a.Seed = r.Uint64N(1000)
		out = append(out, a)
	}
	return out
}

// Fleets draws n plans of many Proxies each from the seed: a few acts and faults at any step, two leaders among them.
func Fleets(n, objects int, seed uint64) []Plan {
	r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // G404: to be repeated, not to be secret
	profiles, all, kinds := cloud.Profiles(), stories(), slices.DeleteFunc(faults(), func(k kind) bool { return k.apart || k.health })
	out := make([]Plan, 0, n)
	for len(out) < n {
		p := Plan{Cloud: profiles[r.IntN(len(profiles))].Name, Objects: objects, Seed: 1 + r.Uint64N(1<<32)}
		prof, _ := profile(p.Cloud)
		s := all[r.IntN(len(all))]
		if s.zones && len(prof.Zones) == 0 {
			continue
		}
		span := 40 * objects
		p.Users = s.at(1 + r.IntN(span))
		for range 1 + r.IntN(3) {
			k := kinds[r.IntN(len(kinds))]
			f := Happening{Kind: k.name, At: 1 + r.IntN(span)}
			if len(k.args) > 0 {
				f.Arg = k.args[r.IntN(len(k.args))]
			}
			p.Faults = append(p.Faults, f)
		}
		if r.IntN(3) == 0 {
			p.Faults = append(p.Faults, Happening{Kind: "two-leaders", At: 1 + r.IntN(span), Arg: 30})
		}
		slices.SortFunc(p.Faults, func(a, b Happening) int { return a.At - b.At })
		out = append(out, p)
	}
	return out
}
