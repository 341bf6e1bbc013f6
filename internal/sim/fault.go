// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// kind is one kind of fault. A new one is a constructor in a file of its own and its line in faults.
type kind struct {
	name string
	args []int // that the exploration tries; none: it has no argument
	hits []Op  // the calls that it can strike
	// alive: it needs a machine that lives.
	alive bool
	// sweeps: it strikes only calls of a sweep for orphans.
	sweeps bool
	// apart: the exploration leaves it out, since not all laws hold under it; it is for plans of its own.
	apart bool
	// health: it is of plans with probes alone.
	health bool
	// strike does it to the call that is about to be sent.
	strike func(w *World, c *call, arg int)
	// lasting is how long its effect goes on; perArg if the argument tells, in seconds.
	lasting Duration
	perArg  bool
	// patience is added to the time in which all must be well again.
	patience Duration
	// costs is how many machines it may cost at most, beside those that the users' acts cost.
	costs int
}

func (k *kind) lasts(arg int) Duration {
	if k.perArg {
		return k.lasting + max(seconds(arg), 0)
	}
	return k.lasting
}

// canStrike reports whether a call is one that the fault strikes.
func (k *kind) canStrike(s Seen) bool {
	return slices.Contains(k.hits, s.Op) && (s.Alive || !k.alive) && (s.Sweep || !k.sweeps)
}

func seconds(n int) Duration { return Duration(n) * time.Second }

// faults lists every kind.
func faults() []kind {
	return slices.Concat(processFaults(), apiFaults(), unheldFaults(), cacheFaults(), cloudFaults(), machineFaults(), sweepFaults(), healthFaults())
}

var kindsByName = func() map[string]*kind {
	m := map[string]*kind{}
	for _, k := range faults() {
		m[k.name] = &k
	}
	return m
}()

func findFault(name string) *kind { return kindsByName[name] }
