// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	idle        = 10 * time.Minute // without its step, an act comes after so long
	patience    = 15 * time.Minute // in which all must be well again after the last fault and act
	quiet       = time.Hour
	atRest      = 70 * time.Second // within which a Proxy at rest is looked at
	longestLife = 6 * time.Hour    // of a run, before it comes to rest
)

// Result is what came of a run.
type Result struct {
	Plan      Plan
	Failure   *Failure // nil: every law held
	Beyond    string   // a broken law that can't be met: why
	Left      string   // a machine was without its Proxy until the collector found it: why
	restarted bool     // more than one process worked
	vanished  bool     // the Proxy went in the moment of its finalizer: the run ends without it
	limit     string   // why a law may not be met
	Reached   bool     // all users' acts and all faults came
	Twins     bool     // twins lived for a while
	Hash      uint64   // of the trace: equal for equal plans
	Steps     []Seen   // up to the quiet hour
	Ready     int      // step at which the first Proxy was first Ready; 0: never
	End       string   // how the world ended up
	Creates   int      // machines ever made
	Trace     string   // if asked for
}

// Run runs a plan, with a mutant's bug put in if there is one.
func (l *Lab) Run(p Plan, m *Mutant, verbose bool) Result {
	w := l.world(p, m, verbose)
	w.live()
	r := Result{
		Plan: p, Failure: w.failure, Reached: w.came || w.reached(), Twins: w.hadTwins, Hash: w.hash, Steps: w.ops, Ready: w.ready,
		limit: w.beyond, Left: w.left, restarted: w.born > 1, vanished: w.vanished, End: w.end(), Creates: w.creates(), Trace: w.Trace(),
	}
	if w.settled > 0 {
		r.Steps = w.ops[:w.settled]
	}
	if w.failure != nil && excused(w.beyond, w.failure.Law, w.born > 1) {
		r.Failure, r.Beyond = nil, w.beyond
	}
	return r
}

// live is one run: until users and faults are done, until all is well, and a quiet hour more.
func (w *World) live() {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(halt); !ok {
				panic(v)
			}
		}
	}()
	w.happen()
	if w.failure == nil && w.settle() {
		w.rest()
	}
}

// settle runs until all is well and at rest, or reports that it isn't within its time.
func (w *World) settle() bool {
	began := w.now()
	end := func() time.Time { // what is still to come puts it off
		from := w.calm
		if began.After(from) {
			from = began
		}
		return from.Add(patience + w.slack() + w.collecting() + w.healing())
	}
	grace := w.profile.Traits.Lag + atRest // a look at rest, at a cloud that knows by now
	for since := w.now(); w.failure == nil; w.work(end()) {
		switch {
		case w.pending() || w.now().Before(w.calm) || w.matches() != "":
			since = w.now()
		case w.changed.After(since):
			since = w.changed
		case w.now().Sub(since) >= grace:
			return true
		}
		if !w.now().Before(end()) {
			w.unsettled()
		}
	}
	return false
}

// unsettled breaks the run off for the law of liveness that is broken.
func (w *World) unsettled() {
	law, why := "L10", w.matches()
	if why == "" {
		law, why = "L11", "all is well, and the operator doesn't come to rest"
	}
	for _, p := range w.api.Proxies() {
		if !p.DeletionTimestamp.IsZero() {
			law = "L12"
		}
	}
	w.fails(law, fmt.Sprintf("at %s: %s", w.since(), why))
}

// rest is the quiet hour.
func (w *World) rest() {
	w.quiet, w.settled = true, w.step
	w.came = w.reached()
	w.users, w.faults = nil, nil // whose step didn't come
	w.note("     %-8s all is well", w.since())
	for end := w.now().Add(quiet); w.now().Before(end) && w.failure == nil; {
		w.work(end)
		if why := w.matches(); why != "" && w.failure == nil {
			w.fails("L10", "it didn't stay so: "+why)
		}
	}
}

// happen runs until every act and fault came, or won't come any more.
func (w *World) happen() {
	for w.failure == nil && !w.reached() && w.now().Sub(start) < longestLife {
		before := w.step
		if w.now().Before(w.calm.Add(idle)) {
			w.work(w.now().Add(idle))
		}
		if !w.now().Before(w.calm.Add(idle)) || (w.step == before && !w.pending()) {
			if !w.nextAct() {
				return // its step never comes
			}
		}
	}
}

// nextAct does the next act without its step.
func (w *World) nextAct() bool {
	for i := range w.users {
		if !w.users[i].struck {
			w.act(&w.users[i])
			return true
		}
	}
	return false
}

func (w *World) reached() bool {
	for _, s := range [][]strike{w.users, w.faults} {
		for _, h := range s {
			if !h.struck {
				return false
			}
		}
	}
	return true
}

// pending reports whether something is planned to happen by itself.
func (w *World) pending() bool { return len(w.planned) > 0 }

// work runs the pass that is due first, if that is before end; else time passes.
func (w *World) work(end time.Time) {
	w.probesBeforeWork(end)
	p, at := w.earliest()
	if len(w.planned) > 0 && (p == nil || w.planned[0].at.Before(at)) {
		p, at = nil, w.planned[0].at
	}
	if at.IsZero() || !at.Before(end) {
		p, at = nil, end
	}
	w.until(at)
	if p == nil {
		w.check(nil)
		return
	}
	if id, due, ok := p.next(); ok && id.Name != "" && !due.After(w.now()) {
		p.work(id)
	}
}

// earliest is the process whose next pass is due first, and when; nil if none is.
func (w *World) earliest() (first *process, at time.Time) {
	for _, p := range w.procs {
		if p.busy {
			continue
		}
		p.deliver()
		if _, due, ok := p.next(); ok && (first == nil || due.Before(at)) {
			first, at = p, due
		}
	}
	return first, at
}

// workUntil works while a call of another process is under way.
func (w *World) workUntil(end time.Time) {
	for w.now().Before(end) && w.failure == nil {
		w.work(end)
	}
	if w.failure != nil {
		panic(halt{})
	}
}

// settlePass notes what a pass left.
func (w *World) settlePass(p *process, err error) {
	if f := w.first(); w.ready == 0 && f != nil && strings.HasPrefix(readyOf(f), "True") {
		w.ready = w.step
	}
	if err != nil {
		w.note("     %-8s p%d error: %v", w.since(), p.id, err)
	}
	for _, e := range w.spoken {
		w.note("     %s", e)
	}
}

// end tells how the world ended up, in words that don't depend on names that clouds make.
func (w *World) end() string {
	var out strings.Builder
	for _, p := range w.api.Proxies() {
		if !w.possible(p) { // what serves or not then, depends on when its inputs went
			fmt.Fprintf(&out, "%s stalled=%t\n", p.Name, is(p, v1alpha1.ConditionStalled))
			continue
		}
		fmt.Fprintf(&out, "%s %s port=%d", p.Name, p.Status.Phase, p.Status.Port)
		for _, c := range p.Status.Conditions {
			fmt.Fprintf(&out, " %s=%s/%s", c.Type, c.Status, c.Reason)
		}
		fmt.Fprintf(&out, " machines=%d\n", len(w.machines(p)))
	}
	return out.String()
}

func (w *World) creates() int {
	n := 0
	for _, p := range w.uids() {
		n += w.cloud.Creates(p)
	}
	return n - w.copied
}
