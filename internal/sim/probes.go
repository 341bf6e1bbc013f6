// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/providers"
)

// What the operator's flags say by default.
const (
	probeEvery   = 15 * time.Second
	probeTimeout = 5 * time.Second
	replaceAfter = 2 * time.Minute // of a machine that is unhealthy
	bootDeadline = 10 * time.Minute
	heldFor      = 5 * time.Minute // after many fell ill at once
)

// deadMark is in user data from which no proxy comes up.
const deadMark = "never answers"

// probing is the truth about machines and targets in a run that probes, and what was asked of them.
type probing struct {
	ills       map[providers.Ref]illness
	lossy      map[providers.Ref]int // every so many requests, one is lost
	asked      map[providers.Ref]int
	answered   map[providers.Ref]time.Time // when a request last got through; zero: never
	untold     map[providers.Ref]time.Time // when it was last so that nobody could know how to ask
	flaps      illness                     // of every machine of the Proxy a, in turns
	turn       Duration
	targetDown time.Time // until then
	disturbed  time.Time // when the effects of the faults end that machines and targets have no part in
}

// illness is a time in which a machine takes connections and never answers.
type illness struct {
	from, until time.Time
	since       time.Time // when it stopped to answer: earlier than from if nobody saw it answer between this illness and the last
}

func (i illness) lingers(d Duration) illness { return illness{i.from, i.until.Add(d), i.since} }

func (i illness) at(t time.Time) bool { return !t.Before(i.from) && t.Before(i.until) }

// startProbes gives the process its engine, as the product wires it, if the plan asks for probes.
func (p *process) startProbes() {
	w := p.w
	if !w.plan.Probe {
		return
	}
	var prober health.Prober = modelProber{w, p}
	if w.mutant != nil && w.mutant.prober != nil {
		prober = w.mutant.prober(prober)
	}
	p.engine = health.New(health.Options{
		Prober: prober, Clock: engineClock{skewed: skewed{p}}, Log: logr.New(sink{w}), Seed: w.plan.Seed, Changed: p.r.HealthChanged,
		HeldChanged: func(pool string, held bool) {
			p.r.HealthHeld(log.IntoContext(context.Background(), logr.New(sink{w})), pool, held)
		},
	})
	p.step = func() { p.engine.Step(life{context.Background(), p, time.Time{}}) }
	p.r.Health = p.engine
	if w.mutant != nil && w.mutant.health != nil {
		p.r.Health = w.mutant.health(p.engine)
	}
	p.r.HealthDefaults = controllers.HealthDefaults{
		Targets:  []probe.Target{{URL: "https://target.example/", Trusted: true}},
		Interval: probeEvery, Timeout: probeTimeout, UnhealthyTimeout: replaceAfter, BootDeadline: bootDeadline,
	}
}

// engineClock is a process's own clock as the engine wants it, which in steps asks nothing but the time.
type engineClock struct {
	skewed
	noTimers
}

type noTimers interface {
	After(d time.Duration) <-chan time.Time
	NewTimer(d time.Duration) clock.Timer
	Sleep(d time.Duration)
	Tick(d time.Duration) <-chan time.Time
}

// nextProbe is the process whose engine has something to do first, and when; nil if none has.
func (w *World) nextProbe() (first *process, at time.Time) {
	if !w.plan.Probe {
		return nil, time.Time{}
	}
	for _, p := range w.procs {
		if p.stopped {
			continue
		}
		due, ok := p.engine.NextDue()
		if due = due.Add(-p.skew); ok && (first == nil || due.Before(at)) {
			first, at = p, due
		}
	}
	return first, at
}

// probesUntil lets engines do what is due until a time, or until something else is planned.
func (w *World) probesUntil(t time.Time) {
	for {
		p, due := w.nextProbe()
		if p == nil || due.After(t) || (len(w.planned) > 0 && w.planned[0].at.Before(due)) {
			return
		}
		if due.After(w.now()) {
			w.clock.SetTime(due)
		}
		p.step()
	}
}

// probesBeforeWork lets engines do what is due before the next pass: it may bring one forward.
func (w *World) probesBeforeWork(end time.Time) {
	for {
		p, due := w.nextProbe()
		if p == nil || !due.Before(end) {
			return
		}
		if q, at := w.earliest(); q != nil && !due.Before(at) {
			return
		}
		w.until(due)
	}
}

// modelProber asks the machines and targets of the model.
type modelProber struct {
	w *World
	p *process
}

// Probe implements health.Prober. A target that is down shows in two ways: some proxies say so, from others nothing comes.
func (m modelProber) Probe(_ context.Context, p probe.Proxy, _ probe.Target) probe.Outcome {
	w := m.w
	i, there := w.at(p.Host)
	made := w.made[i.Name]
	m.p.asked[i.Ref] = m.p.asked[i.Ref] || there
	switch {
	case !there:
		return probe.Outcome{Fault: probe.FaultProxy, Reason: probe.ReasonConnectTimeout}
	case made == nil || int(made.request.Port) != p.Port:
		return probe.Outcome{Fault: probe.FaultProxy, Reason: probe.ReasonConnectRefused}
	case w.ill(i) || w.loses(i.Ref):
		return probe.Outcome{Fault: probe.FaultProxy, Reason: probe.ReasonTimeout}
	case w.targetDown() && len(i.IP)%2 == 0:
		return probe.Outcome{Fault: probe.FaultProxy, Reason: probe.ReasonTargetUnreachable}
	case w.targetDown():
		return probe.Outcome{Fault: probe.FaultTarget, Reason: probe.ReasonTargetError}
	}
	w.probes.answered[i.Ref], made.served = w.now(), true
	return probe.Outcome{Fault: probe.FaultNone, Reason: probe.ReasonHealthy, ExitIP: i.IP}
}

// Open implements health.Prober.
func (m modelProber) Open(context.Context, probe.Proxy, probe.Target) probe.Outcome {
	return probe.Outcome{Fault: probe.FaultNone, Reason: probe.ReasonHealthy}
}

// Control implements health.Prober.
func (m modelProber) Control(context.Context, probe.Target) probe.Outcome {
	if m.w.targetDown() {
		return probe.Outcome{Fault: probe.FaultTarget, Reason: probe.ReasonTimeout}
	}
	m.p.reached = true
	return probe.Outcome{Fault: probe.FaultNone, Reason: probe.ReasonHealthy}
}

func (w *World) targetDown() bool { return w.now().Before(w.probes.targetDown) }

// at is the machine that runs at an address.
func (w *World) at(ip string) (providers.Instance, bool) {
	for _, i := range w.cloud.All() {
		if i.IP == ip && i.State == providers.StateRunning {
			return i, true
		}
	}
	return providers.Instance{}, false
}

// ill reports whether requests don't get through a machine now.
func (w *World) ill(i providers.Instance) bool {
	return w.inTurn(i) || w.stillborn(i) || w.probes.ills[i.Ref].at(w.now())
}

// inTurn reports whether the machine is one that flaps, and doesn't answer now.
func (w *World) inTurn(i providers.Instance) bool {
	f := w.probes.flaps
	return f.at(w.now()) && w.isFirst(i) && (w.now().Sub(f.from)/w.probes.turn)%2 == 0
}

// illSince is when a machine that is ill stopped to answer.
func (w *World) illSince(i providers.Instance) time.Time {
	switch f := w.probes.flaps; {
	case w.stillborn(i):
		return i.CreatedAt
	case w.probes.ills[i.Ref].at(w.now()):
		return w.probes.ills[i.Ref].from
	default:
		return f.from.Add(w.now().Sub(f.from).Truncate(w.probes.turn))
	}
}

// stillborn reports whether the machine was made from what never comes up.
func (w *World) stillborn(i providers.Instance) bool {
	m := w.made[i.Name]
	return m != nil && strings.Contains(m.request.UserData, deadMark)
}

func (w *World) isFirst(i providers.Instance) bool {
	p := w.first()
	return p != nil && owns(p, i)
}

func (w *World) loses(ref providers.Ref) bool {
	n := w.probes.lossy[ref]
	w.probes.asked[ref]++
	return n > 0 && w.probes.asked[ref]%n == 0
}

// flaps reports whether the machine is one that flaps, or did so lately that it may be blamed for it.
func (w *World) flaps(i providers.Instance) bool {
	return w.isFirst(i) && w.probes.flaps.lingers(penalty+2*probeEvery).at(w.now())
}

// fallsIll makes a machine ill for so many seconds; 0: for ever. It cures no illness that lasts longer, and who is ill
// already doesn't fall ill anew.
func (w *World) fallsIll(ref providers.Ref, secs int) {
	was, i := w.probes.ills[ref], w.newIllness(ref, seconds(secs))
	if secs == 0 {
		i.until = never
	}
	if was.at(w.now()) {
		i.from = was.from
		i.until = later(i.until, was.until)
	}
	w.probes.ills[ref] = i
}

// newIllness begins now. Where the machine is ailing and hasn't answered since, probes can't tell the two apart.
func (w *World) newIllness(ref providers.Ref, d Duration) illness {
	i := illness{from: w.now(), until: w.now().Add(d), since: w.now()}
	for _, m := range w.cloud.All() {
		was, ailing := w.ailment(m)
		if m.Ref == ref && ailing && (w.flaps(m) || !w.probes.answered[ref].After(was.from)) {
			i.since = was.since
		}
	}
	return i
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// ailment is the illness for which a machine may be replaced: it goes on, or is over for less time than it takes to
// notice that. Of two it is the one for which it hasn't answered for longer. false: there is none.
func (w *World) ailment(i providers.Instance) (illness, bool) {
	if w.stillborn(i) {
		return illness{from: i.CreatedAt, until: never, since: i.CreatedAt}, true
	}
	own, turns, flaps := w.probes.ills[i.Ref], w.probes.flaps, w.flaps(i)
	turns.since = later(turns.since, i.CreatedAt)
	if own.lingers(2*probeEvery).at(w.now()) && (!flaps || own.since.Before(turns.since)) {
		return own, true
	}
	return turns, flaps
}

// penalty is how long a proxy that has turned unhealthy again and again must answer to be healthy.
const penalty = 32*probeEvery/4 + time.Minute
