// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// story is what users do in an exploration: acts at steps after the one at which the story begins.
type story struct {
	name  string
	acts  []Happening // At counts from the beginning of the story
	zones bool        // needs a cloud with zones
	once  bool        // the collector has its part in it, and its beginning matters little
}

// stories lists them.
func stories() []story {
	one := func(kind string, arg int) []Happening { return []Happening{{kind, 0, arg}} }
	return []story{
		{name: "nothing"},
		{name: "edit", acts: one("edit", 3129)},
		{name: "there and back", acts: []Happening{{"edit", 0, 3129}, {"revert", 3, 0}}},
		{name: "there, there and back", acts: []Happening{{"edit", 0, 3129}, {"label", 4, 1}, {"revert", 9, 0}}},
		{name: "bad, then good", acts: []Happening{{"bad", 0, 0}, {"good", 6, 0}}},
		{name: "another zone", acts: one("zone", 1), zones: true},
		{name: "another account", acts: one("account", 0)},
		{name: "account and zone", acts: []Happening{{"account", 0, 0}, {"zone", 2, 1}}, zones: true},
		{name: "rotate", acts: one("rotate", 1)},
		{name: "no Secret for a while", acts: []Happening{{"unsecret", 0, 0}, {"rotate", 9, 1}}},
		{name: "no Secret", acts: one("unsecret", 0)},
		{name: "delete", acts: one("delete", 0)},
		{name: "edit and delete", acts: []Happening{{"edit", 0, 3129}, {"delete", 2, 0}}},
		{name: "recreate", acts: one("recreate", 0)},
		{name: "pause", acts: []Happening{{"pause", 0, 0}, {"edit", 2, 3129}, {"resume", 8, 0}}},
		{name: "wipe", acts: one("wipe", 0)},
		{name: "wipe, and delete later", acts: []Happening{{"wipe", 0, 0}, {"delete", 12, 0}}},
		{name: "strip", acts: one("strip", 0)},
		{name: "copy", acts: one("copy", 0)},
		{name: "replace", acts: one("replace", 0)},
		{name: "abandon", acts: []Happening{{"abandon", 0, 0}, {"delete", 3, 0}}},
		{name: "abandon by mistake", acts: []Happening{{"mistake", 0, 0}, {"delete", 3, 0}}},
		{name: "status names another's machine", acts: one("misname", 0)},
		{name: "status names another's machine, and delete", acts: []Happening{{"misname", 0, 0}, {"delete", 1, 0}}},
		{name: "poke", acts: []Happening{{"poke", 0, 0}, {"edit", 5, 3129}}},
		{name: "wipe, and delete at once", acts: []Happening{{"wipe", 0, 0}, {"delete", 1, 0}}, once: true},
		{name: "an orphan", acts: one("orphans", 1), once: true},
		{name: "what is left of an orphan", acts: one("leftover", 1), once: true},
		{name: "three orphans", acts: one("orphans", 3), once: true},
		{name: "copied labels", acts: one("relabel", 0), once: true},
	}
}

// at returns the story's acts, begun at a step.
func (s story) at(step int) []Happening {
	out := slices.Clone(s.acts)
	for i := range out {
		out[i].At += step
	}
	return out
}

// begins lists the steps at which the exploration begins a story: around the first create, while the machine boots, and
// when all is well.
func begins(s story, ready int) []int {
	if len(s.acts) == 0 {
		return []int{1}
	}
	if s.once {
		return []int{ready + 1}
	}
	return []int{4, 7, ready + 1}
}

// everyStep lists the plans without faults in which a story begins at any step up to the first poll at rest.
func everyStep(s story, p Plan, ready int) []Plan {
	var out []Plan
	for at := 1; at <= ready+afterRest && len(s.acts) > 0; at++ {
		out = append(out, Plan{Cloud: p.Cloud, Users: s.at(at)})
	}
	return out
}

// afterRest is how many steps of the time after all is well are explored: the first poll at rest.
const afterRest = 3

// clean is a plan without faults, and what came of it.
type clean struct {
	plan   Plan
	result Result
	others []Plan // of the same story, begun at other steps
}

// cleans runs every story without faults on every cloud, from each of its beginnings.
func cleans(l *Lab) []clean {
	var out []clean
	for _, prof := range cloud.Profiles() {
		ready := l.Run(Plan{Cloud: prof.Name}, nil, false).Ready
		for _, s := range stories() {
			if s.zones && len(prof.Zones) == 0 {
				continue
			}
			begin := begins(s, ready)
			for _, at := range begin {
				p := Plan{Cloud: prof.Name, Users: s.at(at)}
				out = append(out, clean{p, l.Run(p, nil, false), nil})
			}
			out[len(out)-1].others = everyStep(s, out[len(out)-1].plan, ready)
		}
	}
	return out
}

// faulty lists the plans with one fault each that can strike in the clean run: up to the fault the two runs are the same.
func (c clean) faulty() []Plan {
	var out []Plan
	last := len(c.result.Steps) + afterRest
	kinds := faults()
	same := repeated(c.result.Steps)
	for i, seen := range c.result.Steps {
		if i >= last {
			break
		}
		if same[i] {
			continue
		}
		for _, k := range kinds {
			if k.apart || k.health || !k.canStrike(seen) {
				continue
			}
			args := k.args
			if len(args) == 0 {
				args = []int{0}
			}
			for _, arg := range args {
				out = append(out, Plan{Cloud: c.plan.Cloud, Users: c.plan.Users, Faults: []Happening{{k.name, i + 1, arg}}})
			}
		}
	}
	return out
}

// repeated marks the steps of passes that only read, and did the same as the two before and the one after: another poll
// of the same wait, at which a fault strikes as at its neighbours.
func repeated(steps []Seen) []bool {
	passes := split(steps)
	out := make([]bool, 0, len(steps))
	for n, p := range passes {
		again := n >= 2 && n+1 < len(passes) && slices.Equal(p, passes[n-1]) && slices.Equal(p, passes[n-2]) && slices.Equal(p, passes[n+1])
		again = again && !slices.ContainsFunc(p, func(s Seen) bool { return s.Op.writes() || s.Op.mutates() })
		for range p {
			out = append(out, again)
		}
	}
	return out
}

// split divides steps into passes.
func split(steps []Seen) [][]Seen {
	var out [][]Seen
	for i, s := range steps {
		if s.Op == Cached || i == 0 || s.Sweep != steps[i-1].Sweep {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	return out
}

// Exploration is all plans of one fault each, with the clean runs that they are compared with.
type Exploration struct {
	Plans  []Plan
	cleans map[string]Result // by text of the plan without faults
}

// Explore lists the plans: every story without faults, and with every fault at every step that it can strike.
func Explore() (*Exploration, error) {
	lab, err := NewLab()
	if err != nil {
		return nil, err
	}
	e := &Exploration{cleans: map[string]Result{}}
	for _, c := range cleans(lab) {
		e.cleans[c.plan.String()] = c.result
		e.Plans = append(e.Plans, c.plan)
		e.Plans = append(e.Plans, c.faulty()...)
		e.Plans = append(e.Plans, c.others...)
	}
	return e, nil
}

// Slice returns about n plans, evenly chosen: the same ones each time.
func (e *Exploration) Slice(n int) []Plan {
	if n >= len(e.Plans) {
		return e.Plans
	}
	out := make([]Plan, 0, n)
	for i := range n {
		out = append(out, e.Plans[i*len(e.Plans)/n])
	}
	return out
}

// RunAll runs the plans, several at a time, and returns their results in the same order.
func (e *Exploration) RunAll(plans []Plan, m *Mutant) ([]Result, error) {
	results := make([]Result, len(plans))
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	labs := make([]*Lab, workers)
	for i := range labs {
		var err error
		if labs[i], err = NewLab(); err != nil {
			return nil, err
		}
	}
	for n, lab := range labs {
		wg.Go(func() {
			for i := n; i < len(plans); i += workers {
				r := e.judge(lab.Run(plans[i], m, false))
				r.Steps, r.End = nil, "" // of a hundred thousand plans they would fill the memory
				results[i] = r
			}
		})
	}
	wg.Wait()
	return results, nil
}

// judge adds the law that compares a run with the clean one of the same plan (L14).
func (e *Exploration) judge(r Result) Result {
	r = e.compare(r)
	if r.Failure != nil && excused(r.limit, r.Failure.Law, r.restarted) {
		r.Failure, r.Beyond = nil, r.limit
	}
	return r
}

func (e *Exploration) compare(r Result) Result {
	c, ok := e.cleans[Plan{Cloud: r.Plan.Cloud, Users: r.Plan.Users, Probe: r.Plan.Probe}.String()]
	if !ok || r.Plan.Objects > 1 || r.Failure != nil || r.Beyond != "" || len(r.Plan.Faults) == 0 || !r.Reached {
		return r
	}
	if r.End != c.End && !r.vanished {
		r.Failure = &Failure{Law: "L14", Why: fmt.Sprintf("it ends as\n%sand without the fault as\n%s", r.End, c.End)}
		return r
	}
	if most := r.Plan.machines(c.Creates); r.Creates > most {
		r.Failure = &Failure{Law: "L14", Why: fmt.Sprintf("%d machines were made, and %d do", r.Creates, most)}
	}
	return r
}

// machines is how many a run may make: what the clean run made, or one for each act that asks for another, and what the
// faults cost.
func (p Plan) machines(clean int) int {
	n := 1
	for _, u := range p.Users {
		n += findAct(u.Kind).machines
	}
	n = max(n, clean)
	for _, f := range p.Faults {
		n += findFault(f.Kind).costs
		// A process that is 5 min behind and takes over after the request dates the new machine before it.
		if f.Kind == "clock" && f.Arg < 0 && slices.ContainsFunc(p.Users, func(u Happening) bool { return u.Kind == "replace" && u.At <= f.At }) {
			n++
		}
	}
	return n
}
