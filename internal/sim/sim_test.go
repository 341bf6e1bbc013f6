// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	plansFlag = flag.Int("plans", scale(5000, 250), "how many plans of the exploration TestExploration runs; 0: all")
	longFlag  = flag.Int("long", scale(400, 20), "how many plans of two faults TestRandom draws; and a tenth as many fleets")
	probeFlag = flag.Int("probed", scale(150, 8), "how many plans with probes TestProbed draws")
	seedFlag  = flag.Uint64("seed", 1, "what TestRandom draws from")
)

// scale is less work under the race detector: a run is one goroutine, and what it could find shows in a few.
func scale(n, underRace int) int {
	if race {
		return underRace
	}
	return n
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // runs leave much behind and need little
	os.Exit(m.Run())
}

func explore(t *testing.T) *Exploration {
	t.Helper()
	e, err := Explore()
	require.NoError(t, err)
	return e
}

func holds(t *testing.T, results []Result) Summary {
	t.Helper()
	s := Summarize(results)
	require.Empty(t, s.Failing, s.String())
	t.Log(s)
	return s
}

// TestExploration runs a slice of all plans of one fault; make sim runs more.
func TestExploration(t *testing.T) {
	e := explore(t)
	require.Greater(t, len(e.Plans), 50000)
	plans := e.Plans
	if *plansFlag > 0 {
		plans = e.Slice(*plansFlag)
	}
	results, err := e.RunAll(plans, nil)
	require.NoError(t, err)
	s := holds(t, results)
	require.Zero(t, s.Unreached, "the exploration lists faults that come")
}

// TestRandom runs plans of several faults, and fleets of 20 Proxies. They are samples, no proof.
func TestRandom(t *testing.T) {
	t.Logf("seed %d", *seedFlag)
	e := explore(t)
	plans := append(e.Pairs(*longFlag, *seedFlag), Fleets(*longFlag/10, 20, *seedFlag)...)
	results, err := e.RunAll(plans, nil)
	require.NoError(t, err)
	holds(t, results)
}

// TestProbed runs plans with probes: verdicts, what is done about machines that don't work, and the disruption budget.
func TestProbed(t *testing.T) {
	e := &Exploration{}
	results, err := e.RunAll(Probed(*probeFlag, *seedFlag), nil)
	require.NoError(t, err)
	holds(t, results)
}

// TestMutants puts each bug in, and sees it caught.
func TestMutants(t *testing.T) {
	e := explore(t)
	require.GreaterOrEqual(t, len(Mutants()), 20)
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			c, err := e.Catch(m, 0)
			require.NoError(t, err)
			require.NotEmpty(t, c.Laws, "nothing caught it in %d plans", c.Plans)
			t.Log(c)
		})
	}
}

// TestEqualPlansGiveEqualTraces runs plans twice, the second time among others.
func TestEqualPlansGiveEqualTraces(t *testing.T) {
	e := explore(t)
	plans := append(append(e.Slice(60), e.Pairs(40, 7)...), Fleets(3, 20, 7)...)
	first, err := e.RunAll(plans, nil)
	require.NoError(t, err)
	lab, err := NewLab()
	require.NoError(t, err)
	for i, p := range plans {
		again, err := ParsePlan(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again, "a plan is its text")
		require.Equal(t, first[i].Hash, lab.Run(again, nil, false).Hash, p.String())
	}
}
