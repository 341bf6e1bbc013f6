// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network is a Prober whose answers a test sets by proxy host and target URL.
type network struct {
	mu       sync.Mutex
	proxies  map[string]probe.Outcome // what is wrong with a proxy
	down     map[string]bool          // targets
	indirect bool                     // no way to targets but through proxies
	open     map[string]probe.Outcome
	probes   map[string]int
	controls map[string]int
	opens    int
	during   func(ctx context.Context, p probe.Proxy) // while a probe is under way
}

func newNetwork() *network {
	return &network{
		proxies: map[string]probe.Outcome{}, down: map[string]bool{}, open: map[string]probe.Outcome{},
		probes: map[string]int{}, controls: map[string]int{},
	}
}

func (n *network) Probe(ctx context.Context, p probe.Proxy, t probe.Target) probe.Outcome {
	n.mu.Lock()
	n.probes[p.Host]++
	during := n.during
	n.mu.Unlock()
	if during != nil {
		during(ctx, p)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if o, ok := n.proxies[p.Host]; ok {
		return o
	}
	if n.down[t.URL] {
		return fault(probe.ReasonProxyError) // which is what an honest proxy says
	}
	return gotThrough()
}

func (n *network) Open(_ context.Context, p probe.Proxy, _ probe.Target) probe.Outcome {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opens++
	if o, ok := n.open[p.Host]; ok {
		return o
	}
	return probe.Outcome{Fault: probe.FaultNone, Reason: probe.ReasonHealthy}
}

func (n *network) Control(_ context.Context, t probe.Target) probe.Outcome {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.controls[t.URL]++
	if n.indirect || n.down[t.URL] {
		return targets(probe.ReasonTargetUnreachable)
	}
	return gotThrough()
}

func (n *network) set(change func(*network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

func (n *network) breakProxy(host string, r probe.Reason) {
	n.set(func(n *network) { n.proxies[host] = fault(r) })
}

func (n *network) mendProxy(host string) {
	n.set(func(n *network) { delete(n.proxies, host) })
}

func (n *network) targetDown(down bool) {
	n.set(func(n *network) { n.down[judgeURL] = down })
}

func (n *network) probed(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.probes[host]
}

const (
	judgeURL = "https://judge.example"
	interval = 20 * time.Second
)

// world is an engine that a test steps through virtual time.
type world struct {
	*network
	engine  *Engine
	clock   *clocktesting.FakeClock
	changed []string // "uid Health Reason"
	held    []string // "pool true"
}

func newWorld(tune ...func(*Options)) *world {
	w := &world{network: newNetwork(), clock: clocktesting.NewFakeClock(start)}
	o := Options{
		Prober: w.network, Clock: w.clock, Log: logr.Discard(), Seed: 1,
		Changed: func(uid string) {
			v, _ := w.engine.Verdict(uid)
			w.changed = append(w.changed, fmt.Sprintf("%s %s %s", uid, v.Health, v.Reason))
		},
		HeldChanged: func(pool string, held bool) { w.held = append(w.held, fmt.Sprint(pool, " ", held)) },
	}
	for _, f := range tune {
		f(&o)
	}
	w.engine = New(o)
	return w
}

// run lets time pass, from one thing that is due to the next.
func (w *world) run(t *testing.T, d time.Duration) {
	end := w.clock.Now().Add(d)
	for {
		at, ok := w.engine.NextDue()
		if !ok || at.After(end) {
			break
		}
		if at.After(w.clock.Now()) {
			w.clock.SetTime(at)
		}
		w.engine.Step(t.Context())
	}
	if end.After(w.clock.Now()) {
		w.clock.SetTime(end)
	}
}

// fleet watches n subjects, p0 to p(n-1), whose hosts are named like them, in as many pools.
func (w *world) fleet(n, pools int, tune ...func(*Subject)) {
	for i := range n {
		s := subjectOf(fmt.Sprint("p", i))
		s.Pool = fmt.Sprint("pool", i%pools)
		for _, f := range tune {
			f(&s)
		}
		w.engine.Watch(s)
	}
}

func subjectOf(uid string) Subject {
	return Subject{
		UID: uid, Incarnation: 1, Pool: "pool0", Proxy: probe.Proxy{Host: uid, Port: 3128, Protocol: probe.HTTP},
		Targets: []probe.Target{{URL: judgeURL, Judge: true}}, Interval: interval, Timeout: 5 * time.Second,
		FailureThreshold: 3, SuccessThreshold: 2,
	}
}

func (w *world) health(uid string) Health {
	v, _ := w.engine.Verdict(uid)
	return v.Health
}

func (w *world) count(h Health) int {
	n := 0
	for uid := range w.engine.core.subjects {
		if w.health(uid) == h {
			n++
		}
	}
	return n
}
