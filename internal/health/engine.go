// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// Prober sends the requests; *probe.Prober is one.
type Prober interface {
	Probe(ctx context.Context, p probe.Proxy, t probe.Target) probe.Outcome
	Open(ctx context.Context, p probe.Proxy, t probe.Target) probe.Outcome
	Control(ctx context.Context, t probe.Target) probe.Outcome
}

// Options are fixed for the life of an Engine. Prober and Clock are required.
type Options struct {
	Prober Prober
	Clock  clock.Clock
	Log    logr.Logger

	Workers      int           // rounds at a time; 0: 256. They wait more than they work
	HostGap      time.Duration // between two rounds at one port of a host; 0: 10 ms
	HostRounds   int           // rounds at a time at one host, each at another port; 0: 8
	OpenEvery    time.Duration // between two looks for an open proxy; 0: 10 min
	ControlEvery time.Duration // between two control probes of a target that nobody doubts; 0: 1 min
	Stretch      float64       // how many times slower who is healthy for an hour is probed, at most 2; less than 1 counts as 1
	Seed         uint64        // of the jitter

	// Changed is told of a subject whose Health, Reason or ExitIP is another than before, HeldChanged of a pool. Both are
	// called one at a time and in order, and must not block; they may call the engine. nil: nobody is told.
	Changed     func(uid string)
	HeldChanged func(pool string, held bool)
	// Named gives keys and values that tell in the log which subject it is, beside its UID. nil: there are none.
	Named func(uid string) []any
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = 256
	}
	if o.HostGap <= 0 {
		o.HostGap = 10 * time.Millisecond
	}
	if o.HostRounds <= 0 {
		o.HostRounds = 8
	}
	if o.OpenEvery <= 0 {
		o.OpenEvery = 10 * time.Minute
	}
	if o.ControlEvery <= 0 {
		o.ControlEvery = time.Minute
	}
	o.Stretch = min(max(o.Stretch, 1), 2)
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.HeldChanged == nil {
		o.HeldChanged = func(string, bool) {}
	}
	if o.Named == nil {
		o.Named = func(string) []any { return nil }
	}
	return o
}

// Engine probes subjects and keeps their verdicts. All methods may be called at any time from any goroutine; it is a
// prometheus.Collector of its metrics.
type Engine struct {
	opts    Options
	metrics metrics
	kicked  chan struct{} // something has changed for the scheduler

	mu      sync.Mutex
	core    *core
	telling bool // somebody is handing out news
}

// New returns an engine that does nothing until Run or Step.
func New(o Options) *Engine {
	o = o.withDefaults()
	c := newCore()
	c.seed, c.stretch, c.openEvery, c.controlEvery = o.Seed, o.Stretch, o.OpenEvery, o.ControlEvery
	c.gap, c.hostMost = o.HostGap, o.HostRounds
	return &Engine{opts: o, metrics: newMetrics(), kicked: make(chan struct{}, 1), core: c}
}

// Watch begins to probe a subject, or goes on with what has changed; the same again costs a comparison. Another incarnation
// or endpoint begins anew, as Unknown; other changes keep the verdict, but for another Prior where there is nothing but hearsay. Results of what was before are dropped. Changed isn't
// called for it.
func (e *Engine) Watch(s Subject) {
	now := e.opts.Clock.Now()
	e.mu.Lock()
	changed := e.core.watch(s, now)
	e.mu.Unlock()
	if changed {
		e.tell()
		e.kick()
	}
}

// Forget ends the watch of a subject. It is no error if there is none.
func (e *Engine) Forget(uid string) {
	now := e.opts.Clock.Now()
	e.mu.Lock()
	e.core.forget(uid, now)
	e.mu.Unlock()
	e.tell()
}

// Verdict returns what is known of a subject, and false if it isn't watched.
func (e *Engine) Verdict(uid string) (Verdict, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.core.subjects[uid]
	if s == nil {
		return Verdict{}, false
	}
	return s.verdict(), true
}

// Held reports whether so many of a pool have turned unhealthy within 5 minutes that it is unlikely to be their own fault.
func (e *Engine) Held(pool string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.core.pools[pool]
	return p != nil && p.held
}

// Run probes until the context ends, and returns nil when all that it started has ended. It must run once at a time, and
// not beside Step.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	e.core.workers = e.opts.Workers
	e.mu.Unlock()
	var all sync.WaitGroup
	defer all.Wait()
	for ctx.Err() == nil {
		jobs := e.start()
		for _, j := range jobs {
			all.Go(func() {
				e.do(ctx, j)
				e.kick()
			})
		}
		e.wait(ctx)
	}
	return nil
}

// wait returns when something is due or has changed.
func (e *Engine) wait(ctx context.Context) {
	at, ok := e.NextDue()
	if !ok {
		select {
		case <-ctx.Done():
		case <-e.kicked:
		}
		return
	}
	d := at.Sub(e.opts.Clock.Now())
	if d <= 0 {
		return
	}
	timer := e.opts.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-e.kicked:
	case <-timer.C():
	}
}

// NextDue is when Step has something to do; false: never, as things are. For a caller that turns the clock itself.
func (e *Engine) NextDue() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.core.wake()
}

// Step does everything that is due now, one by one in the goroutine of the caller, in the same order each time. For a
// simulation; it must not be called beside Run.
func (e *Engine) Step(ctx context.Context) {
	for ctx.Err() == nil {
		jobs := e.start()
		for _, j := range jobs {
			e.do(ctx, j)
		}
		if len(jobs) == 0 {
			return
		}
	}
}

func (e *Engine) start() []*job {
	now := e.opts.Clock.Now()
	e.mu.Lock()
	jobs := e.core.start(now)
	e.mu.Unlock()
	for _, j := range jobs {
		if j.control == nil {
			e.metrics.lateness.Observe(now.Sub(j.due).Seconds())
		}
	}
	e.tell()
	return jobs
}

func (e *Engine) kick() {
	select {
	case e.kicked <- struct{}{}:
	default: // it is awake already
	}
}

// tell hands out the news in their order, without the lock. Who finds another at it leaves it to that one.
func (e *Engine) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.telling {
		return
	}
	e.telling = true
	for len(e.core.news) > 0 {
		all := e.core.news
		e.core.news = nil
		e.mu.Unlock()
		for _, n := range all {
			e.tellOne(n)
		}
		e.mu.Lock()
	}
	e.telling = false
}

func (e *Engine) tellOne(n news) {
	if n.pool != "" {
		e.opts.Log.Info("correlated failures of a pool", "pool", n.pool, "held", n.held)
		e.opts.HeldChanged(n.pool, n.held)
		return
	}
	v := n.verdict
	e.opts.Log.WithValues(e.opts.Named(n.uid)...).Info("another verdict", "uid", v.UID, "incarnation", v.Incarnation, "health", v.Health, "reason", v.Reason,
		"exitIP", v.ExitIP, "detail", n.detail)
	e.opts.Changed(n.uid)
}
