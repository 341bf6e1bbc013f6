// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// healthStories are what users do in runs with probes.
func healthStories() []story {
	one := func(kind string, arg int) []Happening { return []Happening{{kind, 0, arg}} }
	return []story{
		{name: "nothing"},
		{name: "a rollout", acts: one("rotate", 1)},
		{name: "two rollouts", acts: []Happening{{"rotate", 0, 1}, {"rotate", 30, 2}}},
		{name: "a bad rollout", acts: one("bad-secret", 1800)},
		{name: "a bad rollout for long", acts: one("bad-secret", 9000)},
		{name: "a rollout over a bad one", acts: []Happening{{"bad-secret", 0, 1200}, {"rotate", 40, 1}}},
		{name: "age", acts: one("age", 1200)},
		{name: "one is edited", acts: one("edit", 3129)},
		{name: "one is edited there and back", acts: []Happening{{"edit", 0, 3129}, {"revert", 9, 0}}},
		{name: "one is replaced", acts: one("replace", 0)},
		{name: "one is deleted", acts: one("delete", 0)},
		{name: "one is made anew", acts: one("recreate", 0)},
		{name: "the Secret is gone for a while", acts: []Happening{{"unsecret", 0, 0}, {"rotate", 9, 1}}},
	}
}

// besideHealth are the faults of the operator, the API server and the cloud that plans with probes have too.
func besideHealth() []string {
	return []string{"crash-before", "crash-after", "travel", "lag", "stops", "vanishes", "new-ip", "api-down", "cloud-down", "slow", "conflict", "api-500"}
}

// Probed draws n plans with probes from the seed: a story, up to two faults that only probes notice, and up to two others;
// of one Proxy, of few, or of many.
func Probed(n int, seed uint64) []Plan {
	r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // G404: to be repeated, not to be secret
	profiles, tales, ills := cloud.Profiles(), healthStories(), healthFaults()
	sizes := []int{1, 1, 1, 1, 6, 6, 20}
	out := make([]Plan, 0, n)
	for len(out) < n {
		p := Plan{Cloud: profiles[r.IntN(len(profiles))].Name, Objects: sizes[r.IntN(len(sizes))], Seed: 1 + r.Uint64N(1<<32), Probe: true}
		span := 25*p.Objects + 60
		p.Users = tales[r.IntN(len(tales))].at(1 + r.IntN(span))
		if p.Objects == 1 {
			p.Objects = 0
		}
		for range r.IntN(3) {
			p.Faults = append(p.Faults, happens(r, ills[r.IntN(len(ills))], span))
		}
		for range r.IntN(3) {
			p.Faults = append(p.Faults, happens(r, *findFault(besideHealth()[r.IntN(len(besideHealth()))]), span))
		}
		slices.SortFunc(p.Faults, func(a, b Happening) int { return a.At - b.At })
		out = append(out, p)
	}
	return out
}

func happens(r *rand.Rand, k kind, span int) Happening {
	h := Happening{Kind: k.name, At: 1 + r.IntN(2*span)}
	if len(k.args) > 0 {
		h.Arg = k.args[r.IntN(len(k.args))]
	}
	return h
}
