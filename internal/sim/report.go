// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Summary is what came of many plans.
type Summary struct {
	Plans     int
	Failing   []Result
	Unreached int            // plans of which a fault or act never came
	Twins     int            // plans in which twins lived for a while
	Beyond    map[string]int // plans that broke a law that can't be met, by why
	Left      map[string]int // plans in which a machine was without its Proxy until it was collected, by why
}

// Summarize sums results up.
func Summarize(results []Result) Summary {
	s := Summary{Plans: len(results), Beyond: map[string]int{}, Left: map[string]int{}}
	for _, r := range results {
		switch {
		case r.Failure != nil:
			s.Failing = append(s.Failing, r)
		case r.Beyond != "":
			s.Beyond[r.Beyond]++
		case !r.Reached:
			s.Unreached++
		}
		if r.Left != "" && r.Failure == nil {
			s.Left[r.Left]++
		}
		if r.Twins {
			s.Twins++
		}
	}
	return s
}

// perLaw is how many failing plans are shown of each law.
const perLaw = 10

// String tells of the failing plans, by law, each with the line that replays it.
func (s Summary) String() string {
	var w strings.Builder
	byLaw := map[string][]Result{}
	for _, r := range s.Failing {
		byLaw[r.Failure.Law] = append(byLaw[r.Failure.Law], r)
	}
	for _, law := range slices.Sorted(maps.Keys(byLaw)) {
		fmt.Fprintf(&w, "%s is broken in %d plans\n", law, len(byLaw[law]))
		for _, r := range byLaw[law][:min(perLaw, len(byLaw[law]))] {
			fmt.Fprintf(&w, "  step %d: %s\n  replay: go test ./internal/sim -run Plan -v -plan '%s'\n", r.Failure.Step, r.Failure.Why, r.Plan)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(s.Beyond)) {
		fmt.Fprintf(&w, "can't be met (docs/adr/0012-simulation.md): %s: %d plans\n", why, s.Beyond[why])
	}
	for _, why := range slices.Sorted(maps.Keys(s.Left)) {
		fmt.Fprintf(&w, "left without a Proxy, and collected: %s: %d plans\n", why, s.Left[why])
	}
	fmt.Fprintf(&w, "%d plans; in %d twins lived for a while; in %d a fault never came\n", s.Plans, s.Twins, s.Unreached)
	return w.String()
}

// Caught is by what a mutant was caught.
type Caught struct {
	Plans int            // it was run on
	Laws  map[string]int // plans that a law caught it in
	First string         // such a plan, and why
}

// String returns the laws in order, each with its number of plans.
func (c Caught) String() string {
	s := ""
	for _, law := range slices.Sorted(maps.Keys(c.Laws)) {
		s += fmt.Sprintf("%s in %d, ", law, c.Laws[law])
	}
	return fmt.Sprintf("%sof %d plans; first: %s", s, c.Plans, c.First)
}

// Catch runs a mutant on its own plans and on n of the exploration; n is 0: until it is caught. A plan that fails without
// the mutant as well catches nothing.
func (e *Exploration) Catch(m Mutant, n int) (Caught, error) {
	c := Caught{Laws: map[string]int{}}
	own := make([]Plan, 0, len(m.plans))
	for _, text := range m.plans {
		p, err := ParsePlan(text)
		if err != nil {
			return c, err
		}
		own = append(own, p)
	}
	if err := e.catchIn(&c, m, own); err != nil || (n == 0 && len(c.Laws) > 0) {
		return c, err
	}
	if n > 0 {
		return c, e.catchIn(&c, m, e.Slice(n))
	}
	const batch = 64
	all := e.Slice(batch * batch)
	for i := 0; i < batch && len(c.Laws) == 0; i++ {
		var some []Plan // from everywhere
		for k := i; k < len(all); k += batch {
			some = append(some, all[k])
		}
		if err := e.catchIn(&c, m, some); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (e *Exploration) catchIn(c *Caught, m Mutant, plans []Plan) error {
	results, err := e.RunAll(plans, &m)
	if err != nil {
		return err
	}
	c.Plans += len(plans)
	var failing []Plan
	for _, r := range results {
		if r.Failure != nil {
			failing = append(failing, r.Plan)
		}
	}
	without, err := e.RunAll(failing, nil)
	if err != nil {
		return err
	}
	fails := map[string]bool{}
	for _, r := range without {
		fails[r.Plan.String()] = r.Failure != nil
	}
	for _, r := range results {
		if r.Failure == nil || fails[r.Plan.String()] {
			continue
		}
		c.Laws[r.Failure.Law]++
		if c.First == "" {
			c.First = fmt.Sprintf("%s: %s", r.Plan, r.Failure.Why)
		}
	}
	return nil
}
