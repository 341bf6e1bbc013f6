// SPDX-License-Identifier: Apache-2.0

// Command sim runs the simulation of internal/sim at length: all plans of one fault or a slice of them, plans of several
// faults drawn from a seed, and every mutant. Its last line is the sum; it fails if a plan does or a mutant isn't caught.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/proxy-operator/proxy-operator/internal/sim"
)

type options struct {
	plans, pairs, fleets, objects, probed, perMutant int
	seed                                             uint64
}

func main() {
	var o options
	flag.IntVar(&o.plans, "plans", 60000, "plans of one fault; 0: all of them")
	flag.IntVar(&o.pairs, "pairs", 0, "plans of two faults")
	flag.IntVar(&o.fleets, "fleets", 0, "plans of many Proxies and several faults")
	flag.IntVar(&o.objects, "objects", 20, "Proxies of a fleet")
	flag.IntVar(&o.probed, "probed", 2000, "plans with probes")
	flag.IntVar(&o.perMutant, "per-mutant", 500, "plans that each mutant is run on, beside its own; 0: until it is caught")
	flag.Uint64Var(&o.seed, "seed", 1, "what pairs and fleets are drawn from")
	flag.Parse()
	debug.SetGCPercent(800) // runs leave much behind and need little
	debug.SetMemoryLimit(1 << 30)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errFound = errors.New("the simulation found something")

func run(o options) error {
	e, err := sim.Explore()
	if err != nil {
		return err
	}
	plans := e.Plans
	if o.plans > 0 {
		plans = e.Slice(o.plans)
	}
	fmt.Printf("%d of %d plans of one fault; seed %d: %d of two, %d of fleets, %d with probes\n", len(plans), len(e.Plans), o.seed, o.pairs, o.fleets, o.probed)
	plans = append(append(plans[:len(plans):len(plans)], e.Pairs(o.pairs, o.seed)...), sim.Fleets(o.fleets, o.objects, o.seed)...)
	plans = append(plans, sim.Probed(o.probed, o.seed)...)
	results, err := e.RunAll(plans, nil)
	if err != nil {
		return err
	}
	s := sim.Summarize(results)
	fmt.Print(s)
	mutants := sim.Mutants()
	caught := 0
	for _, m := range mutants {
		c, err := e.Catch(m, o.perMutant)
		if err != nil {
			return err
		}
		if len(c.Laws) > 0 {
			caught++
		}
		fmt.Printf("mutant %-52s %s\n", m.Name+":", c)
	}
	fmt.Printf("sim: %d plans, %d failing; %d mutants, %d caught\n", s.Plans, len(s.Failing), len(mutants), caught)
	if len(s.Failing) > 0 || caught < len(mutants) {
		return errFound
	}
	return nil
}
