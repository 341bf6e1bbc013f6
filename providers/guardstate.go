// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"cmp"
	"maps"
	"slices"
)

// GuardState is what the guards of one account are doing, for metrics.
type GuardState struct {
	Gates        []GateState // that are closed, or were until a short time ago, by zone and gate
	CircuitOpen  bool
	InFlight     int
	Waiting      map[string]int    // calls that were told to come back, by family: "reads", "changes"
	Refusals     map[string]uint64 // since the start, by code
	Counted      bool              // a list has told the number of instances
	Instances    int               // of this installation, by the newest complete list
	MaxInstances int               // 0: no bound
}

// GateState is one gate.
type GateState struct {
	Zone   string // or the namespace, where each has a quota of its own
	Gate   string
	Closed bool
}

// State returns a copy of what the guards are doing.
func (g *Guarded) State() GuardState {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := GuardState{
		CircuitOpen: g.circuit.open > 0, InFlight: g.inFlight, Waiting: map[string]int{}, Refusals: maps.Clone(g.refusals),
		Counted: !g.count.listedAt.IsZero(), Instances: g.count.total, MaxInstances: g.limits.MaxInstances,
	}
	now := g.clock.Now()
	for f, q := range g.queues {
		q.sweep(now)
		s.Waiting[family(f).String()] = len(q.places)
	}
	g.forgetGates(now)
	for id, gt := range g.gates {
		s.Gates = append(s.Gates, GateState{Zone: cmp.Or(id.in.zone, id.in.namespace), Gate: id.gate, Closed: gt.closed})
	}
	slices.SortFunc(s.Gates, func(a, b GateState) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Gate, b.Gate))
	})
	return s
}
