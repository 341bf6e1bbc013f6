// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/sim/api"
	"github.com/proxy-operator/proxy-operator/providers"
)

// The queue's backoff after errors, as SetupWithManager has it.
const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 5 * time.Minute
	downtime     = 3 * time.Second // from a crash to the next start
	workers      = 3               // as the manager has by default
)

// process is one operator: its caches, its queue and its reconciler. All of it is lost when it ends.
type process struct {
	w        *World
	id       int
	view     *api.View
	frozen   time.Time // until then the cache doesn't move
	held     int       // revisions that the cache holds back
	queue    map[types.NamespacedName]time.Time
	failures map[types.NamespacedName]int
	skew     Duration // of its clock
	r        *controllers.ProxyReconciler
	sweeper  *controllers.Collector
	engine   *health.Engine         // nil: nothing is probed
	step     func()                 // of the engine
	asked    map[providers.Ref]bool // through these machines it has sent requests
	reached  bool                   // it has reached the target without a proxy once
	busy     bool
	stopped  bool // its context is cancelled
	retired  bool // it ends with the pass that it is in
	pass     pass
}

// pass is what the laws need to know of the pass that runs.
type pass struct {
	key   types.NamespacedName
	start int  // step at which it began
	live  int  // step of the newest live read of the Proxy; 0: none
	sweep bool // it is a sweep for orphans, of no Proxy
}

// process starts an operator whose caches are behind by so many revisions.
func (w *World) process(behind int) *process {
	w.born++
	p := &process{
		w: w, id: w.born, view: w.api.View(behind),
		queue: map[types.NamespacedName]time.Time{}, failures: map[types.NamespacedName]int{}, asked: map[providers.Ref]bool{},
	}
	var c client.Client = apiDoor{p: p, Client: w.api.Client()}
	registry := providers.Registry{}
	for _, name := range accounts {
		var pr providers.Provider = cloudDoor{p: p, account: name, Provider: w.cloud.Account(name)}
		if w.mutant != nil && w.mutant.provider != nil {
			pr = w.mutant.provider(pr)
		}
		registry[name] = providers.Account{
			Name: name, Type: "model", Zones: w.profile.Zones, Fingerprint: "f", Limits: limits, Orphans: providers.OrphansDelete, Provider: pr,
		}
	}
	if w.mutant != nil && w.mutant.client != nil {
		c = w.mutant.client(c)
	}
	p.r = &controllers.ProxyReconciler{
		Client: c, APIReader: liveDoor{p}, Recorder: recorder{w}, Providers: registry, Installation: installation, Clock: skewed{p},
		Secrets: &controllers.Secrets{Metadata: p.view, Live: liveDoor{p}}, Metrics: w.metrics, Deadline: p.deadline,
		Wake: func(id types.NamespacedName) { p.add(id, w.now()) },
	}
	if w.mutant != nil {
		p.r.Unguarded = w.mutant.unguarded
	}
	p.guard()
	p.startProbes()
	for _, id := range p.view.Keys() {
		p.queue[id] = w.now()
	}
	p.startSweeps(c)
	return p
}

// replace ends a process, and starts the next one after a while.
func (w *World) replace(p *process, how crash) {
	w.procs = slices.DeleteFunc(w.procs, func(q *process) bool { return q == p })
	if len(w.procs) > 0 {
		return // another one works already
	}
	next := w.process(how.behind)
	next.skew = how.skew
	for id, due := range next.queue {
		next.queue[id] = due.Add(downtime)
	}
	if how.behind > 0 {
		next.frozen = w.now().Add(downtime + 20*time.Second)
		w.ends(downtime + 20*time.Second)
		w.over = w.calm
	}
	w.procs = append(w.procs, next)
}

// deliver moves the caches on, and queues what changed.
func (p *process) deliver() {
	if p.w.now().Before(p.frozen) {
		return
	}
	for _, k := range []api.Kind{api.Proxies, api.Secrets} {
		n := p.view.Behind(k)
		if k == api.Proxies && p.held > 0 && n <= p.held {
			continue
		}
		for _, e := range p.view.Advance(k, n) {
			p.event(k, e)
		}
		if n > 0 && k == api.Proxies {
			p.held = 0
		}
	}
}

func (p *process) event(k api.Kind, e api.Event) {
	if k == api.Proxies {
		p.add(client.ObjectKeyFromObject(e.Object), p.w.now())
		return
	}
	for _, id := range p.view.Users(e.Object.GetName()) {
		p.add(id, p.w.now())
	}
}

// add queues a key once, at the earliest of the times it was asked for.
func (p *process) add(id types.NamespacedName, at time.Time) {
	if due, ok := p.queue[id]; !ok || at.Before(due) {
		p.queue[id] = at
	}
}

// next is the key that is due first; of those that wait the seed chooses.
func (p *process) next() (id types.NamespacedName, due time.Time, ok bool) {
	for k, at := range p.queue {
		if at.Before(p.w.now()) {
			at = p.w.now()
		}
		if !ok || cmp.Or(at.Compare(due), cmp.Compare(p.order(k), p.order(id))) < 0 {
			id, due, ok = k, at, true
		}
	}
	// A cache that stands still moves by itself one day.
	if p.w.now().Before(p.frozen) && p.view.Behind(api.Proxies)+p.view.Behind(api.Secrets) > 0 && (!ok || p.frozen.Before(due)) {
		return types.NamespacedName{}, p.frozen, true
	}
	return id, due, ok
}

func (p *process) order(id types.NamespacedName) uint64 {
	if len(p.queue) == 1 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id.String()))
	return (h.Sum64() ^ p.w.plan.Seed ^ uint64(p.w.step)) * 0x9e3779b97f4a7c15 //nolint:gosec // G115: steps are never negative
}

// work runs one pass.
func (p *process) work(id types.NamespacedName) {
	delete(p.queue, id)
	began := p.w.now()
	p.busy, p.pass = true, pass{key: id, start: p.w.step + 1, sweep: id == sweepKey}
	res, died, err := p.reconcile(id)
	p.busy = false
	p.w.settlePass(p, err)
	switch {
	case died != nil:
		p.w.note("     %-8s p%d dies", p.w.since(), p.id)
		p.w.check(nil)
		p.w.replace(p, *died)
	case p.stopped || p.retired:
		p.w.replace(p, crash{})
	case id == sweepKey:
		p.add(id, began.Add(sweepEvery))
	case err != nil:
		p.add(id, p.w.now().Add(min(firstBackoff<<min(p.failures[id], 16), maxBackoff)))
		p.failures[id]++
	default:
		delete(p.failures, id)
		if res.RequeueAfter > 0 {
			p.add(id, p.w.now().Add(res.RequeueAfter))
		}
	}
}

func (p *process) reconcile(id types.NamespacedName) (res ctrl.Result, died *crash, err error) {
	defer func() {
		if v := recover(); v != nil {
			c, ok := v.(crash)
			if !ok {
				panic(v)
			}
			died = &c
		}
	}()
	ctx := log.IntoContext(life{context.Background(), p, time.Time{}}, logr.New(sink{p.w}))
	if id == sweepKey {
		return res, nil, p.sweep(ctx)
	}
	res, err = p.r.Reconcile(ctx, ctrl.Request{NamespacedName: id})
	return res, nil, err
}

// life is a context that ends with its process, or by the virtual clock.
type life struct {
	context.Context //nolint:containedctx // it is a context
	p               *process
	at              time.Time // zero: no deadline
}

// Err implements context.Context.
func (l life) Err() error {
	switch {
	case l.p.stopped:
		return context.Canceled
	case !l.at.IsZero() && !l.p.w.now().Before(l.at):
		return context.DeadlineExceeded
	default:
		return l.Context.Err()
	}
}

// Deadline implements context.Context.
func (l life) Deadline() (time.Time, bool) { return l.at, !l.at.IsZero() }

// deadline bounds a call by the virtual clock.
func (p *process) deadline(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return life{ctx, p, p.w.now().Add(d)}, func() {}
}

// skewed is a process's own clock.
type skewed struct{ p *process }

// Now implements clock.PassiveClock.
func (s skewed) Now() time.Time { return s.p.w.now().Add(s.p.skew) }

// Since implements clock.PassiveClock.
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

var errStopped = errors.New("the process is stopping")
