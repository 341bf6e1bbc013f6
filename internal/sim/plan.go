// SPDX-License-Identifier: Apache-2.0

// Package sim is the proof that no machine is lost or doubled: it runs the real reconciler of controllers against a
// model API server and model clouds, in one goroutine and by a virtual clock, lets users act and things go wrong at
// exactly one step, and checks laws after every step. Reading order: plan.go (what happens), world.go and process.go
// (where), doors.go (every call of the operator comes by), user_*.go and fault_*.go (what is done to it), law_*.go (what must
// hold), run.go (one plan), explore.go (all of them), mutant.go (bugs put in to see that the laws notice). What it can't
// show is in docs/adr/0012-simulation.md.
package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Plan is one run: on which cloud, what users do, what goes wrong. Its text is one line, "do,edit@7,crash-after@9", from
// which the run is replayed to the byte.
type Plan struct {
	Cloud   string
	Users   []Happening
	Faults  []Happening
	Objects int    // Proxies at the start; 0 means 1
	Seed    uint64 // order of ready queue items, chances of the cloud
	Probe   bool   // the operator probes, as the product does; without it Ready is what the cloud says
}

// Happening is a user's act or a fault. It comes at the At-th call of the operator through a door, counted from 1; an
// act whose step doesn't come because nothing goes on any more is done then.
type Happening struct {
	Kind string
	At   int
	Arg  int // seconds, revisions, a port: what the kind makes of it
}

// String returns KIND@STEP or KIND@STEP:ARG.
func (h Happening) String() string {
	s := h.Kind + "@" + strconv.Itoa(h.At)
	if h.Arg != 0 {
		s += ":" + strconv.Itoa(h.Arg)
	}
	return s
}

// String returns the plan as one line.
func (p Plan) String() string {
	parts := []string{p.Cloud}
	if p.Objects > 1 {
		parts = append(parts, "objects="+strconv.Itoa(p.Objects))
	}
	if p.Seed != 0 {
		parts = append(parts, "seed="+strconv.FormatUint(p.Seed, 10))
	}
	if p.Probe {
		parts = append(parts, "probe")
	}
	for _, h := range slices.Concat(p.Users, p.Faults) {
		parts = append(parts, h.String())
	}
	return strings.Join(parts, ",")
}

// ParsePlan reads what String wrote.
func ParsePlan(text string) (Plan, error) {
	parts := strings.Split(text, ",")
	p := Plan{Cloud: parts[0]}
	if _, ok := profile(p.Cloud); !ok {
		return p, fmt.Errorf("plan %q: there is no cloud %q", text, p.Cloud)
	}
	for _, part := range parts[1:] {
		if err := p.add(part); err != nil {
			return p, fmt.Errorf("plan %q: %w", text, err)
		}
	}
	return p, nil
}

func (p *Plan) add(part string) (err error) {
	if v, ok := strings.CutPrefix(part, "objects="); ok {
		p.Objects, err = strconv.Atoi(v)
		return err
	}
	if v, ok := strings.CutPrefix(part, "seed="); ok {
		p.Seed, err = strconv.ParseUint(v, 10, 64)
		return err
	}
	if part == "probe" {
		p.Probe = true
		return nil
	}
	h := Happening{}
	kind, at, _ := strings.Cut(part, "@")
	at, arg, hasArg := strings.Cut(at, ":")
	if h.Kind = kind; at != "" {
		if h.At, err = strconv.Atoi(at); err != nil {
			return err
		}
	}
	if hasArg {
		if h.Arg, err = strconv.Atoi(arg); err != nil {
			return err
		}
	}
	switch {
	case findAct(kind) != nil:
		p.Users = append(p.Users, h)
	case findFault(kind) != nil:
		p.Faults = append(p.Faults, h)
	default:
		return fmt.Errorf("%q is neither an act of a user nor a fault", kind)
	}
	return nil
}
