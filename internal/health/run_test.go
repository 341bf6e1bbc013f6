// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// running starts an engine by the real clock, and ends it with the test.
func running(t *testing.T, n Prober, tune ...func(*Options)) (*Engine, context.CancelFunc) {
	t.Helper()
	o := Options{Prober: n, Clock: clock.RealClock{}, Log: logr.Discard(), HostGap: time.Millisecond}
	for _, f := range tune {
		f(&o)
	}
	e := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return e, stop
}

func quick(uid string) Subject {
	s := subjectOf(uid)
	s.Interval = 100 * time.Millisecond
	return s
}

func soon(t *testing.T, what func() bool, why string) {
	t.Helper()
	require.Eventually(t, what, 10*time.Second, 2*time.Millisecond, why)
}

func TestRunProbesAndTells(t *testing.T) {
	n := newNetwork()
	var e *Engine
	var told sync.Map
	var inside, overlapping atomic.Bool
	e, _ = running(t, n, func(o *Options) {
		o.Changed = func(uid string) {
			if inside.Swap(true) {
				overlapping.Store(true)
			}
			defer inside.Store(false)
			runtime.Gosched()
			v, _ := e.Verdict(uid)
			told.Store(uid, v.Health)
			e.Watch(quick(uid)) // as a reconciler does; it must neither wait for itself nor be called for it
		}
	})
	for i := range 20 {
		e.Watch(quick(fmt.Sprint("p", i)))
	}
	is := func(uid string, want Health) func() bool {
		return func() bool {
			h, _ := told.Load(uid)
			return h == want
		}
	}
	for i := range 20 {
		soon(t, is(fmt.Sprint("p", i), Healthy), "it works")
	}
	n.breakProxy("p7", probe.ReasonConnectRefused)
	soon(t, is("p7", Unhealthy), "it is broken")
	n.mendProxy("p7")
	soon(t, is("p7", Healthy), "it is mended")
	require.False(t, overlapping.Load(), "one at a time")
}

// hanging is a network on which some proxies never answer.
type hanging struct {
	*network
	hangs       func(host string) bool
	now, most   atomic.Int64
	perPort     sync.Map
	overlapping atomic.Bool
}

func (h *hanging) Probe(ctx context.Context, p probe.Proxy, t probe.Target) probe.Outcome {
	at := place{p.Host, p.Port}
	if _, taken := h.perPort.LoadOrStore(at, true); taken {
		h.overlapping.Store(true)
	}
	defer h.perPort.Delete(at)
	n := h.now.Add(1)
	defer h.now.Add(-1)
	for m := h.most.Load(); n > m && !h.most.CompareAndSwap(m, n); m = h.most.Load() {
	}
	if h.hangs(p.Host) {
		<-ctx.Done()
		return fault(probe.ReasonTimeout)
	}
	return h.network.Probe(ctx, p, t)
}

func TestRunEndsWithEverythingItStarted(t *testing.T) {
	h := &hanging{network: newNetwork(), hangs: func(string) bool { return true }}
	e, stop := running(t, h)
	for i := range 50 {
		s := quick(fmt.Sprint("p", i))
		s.FailureThreshold = 1
		e.Watch(s)
	}
	soon(t, func() bool { return h.now.Load() == 50 }, "all wait for an answer")
	stop()
	require.Zero(t, h.now.Load())
	for i := range 50 {
		v, _ := e.Verdict(fmt.Sprint("p", i))
		require.Equal(t, Unknown, v.Health, "a shutdown is nobody's fault")
	}
}

func TestASecondRunGoesOn(t *testing.T) {
	h := &hanging{network: newNetwork(), hangs: func(string) bool { return true }}
	e, stop := running(t, h)
	e.Watch(quick("p0"))
	soon(t, func() bool { return h.now.Load() == 1 }, "it waits for an answer")
	stop()
	h.hangs = func(string) bool { return false }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	soon(t, func() bool { v, _ := e.Verdict("p0"); return v.Health == Healthy }, "what was cut off is asked again")
	cancel()
	require.NoError(t, <-done)
}

func TestNoMoreRoundsAtATimeThanWorkers(t *testing.T) {
	h := &hanging{network: newNetwork(), hangs: func(string) bool { return true }}
	var told atomic.Int64
	e, stop := running(t, h, func(o *Options) {
		o.Workers = 4
		o.Changed = func(string) { told.Add(1) }
	})
	for i := range 20 {
		s := quick(fmt.Sprint("p", i))
		s.Prior, s.Timeout = Healthy, 20*time.Millisecond
		e.Watch(s)
	}
	soon(t, func() bool { return told.Load() == 20 }, "all have had their turns, the failing among themselves too")
	stop()
	require.LessOrEqual(t, h.most.Load(), int64(4))
}

func TestNoTwoRoundsAtOnePort(t *testing.T) {
	h := &hanging{network: newNetwork(), hangs: func(string) bool { return false }}
	h.during = func(context.Context, probe.Proxy) {
		for range 100 {
			runtime.Gosched()
		}
	}
	e, _ := running(t, h)
	for i := range 30 {
		s := quick(fmt.Sprint("p", i))
		s.Proxy.Host, s.Proxy.Username = "gateway", s.UID // one port, and the name tells who is behind it
		e.Watch(s)
	}
	soon(t, func() bool { return h.probed("gateway") > 100 }, "they are probed")
	require.False(t, h.overlapping.Load())
}

func TestManyDoubtsAreOneControlProbe(t *testing.T) {
	n := newNetwork()
	e, _ := running(t, n, func(o *Options) { o.ControlEvery = time.Hour })
	healthy := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		c := 0
		for _, s := range e.core.subjects {
			if s.health == Healthy {
				c++
			}
		}
		return c
	}
	for i := range 100 {
		e.Watch(quick(fmt.Sprint("p", i)))
	}
	soon(t, func() bool { return healthy() == 100 }, "all work")
	n.targetDown(true)
	before := n.probed("p0")
	soon(t, func() bool { return n.probed("p0") > before+10 }, "ten rounds")
	n.mu.Lock()
	controls := n.controls[judgeURL]
	n.mu.Unlock()
	require.Less(t, controls, 100*10)
	require.Equal(t, 100, healthy())
}

func TestMetrics(t *testing.T) {
	w := newWorld()
	w.fleet(12, 2)
	for i := range 6 {
		w.breakProxy(fmt.Sprint("p", 2*i), probe.ReasonAuthFailed)
	}
	w.run(t, time.Minute)
	got := gathered(t, w.engine)
	for series, want := range map[string]float64{
		"proxy_operator_health{Healthy}":          6,
		"proxy_operator_health{Unhealthy}":        6,
		"proxy_operator_health{Unknown}":          0,
		"proxy_operator_health_held{pool0}":       1,
		"proxy_operator_health_held{pool1}":       0,
		"proxy_operator_probe_duration_seconds{}": float64(w.total()),
		"proxy_operator_probe_lateness_seconds{}": float64(w.total()),
	} {
		require.Contains(t, got, series)
		require.InDelta(t, want, got[series], 0, series)
	}
	require.Positive(t, got["proxy_operator_probes_total{proxy,AuthFailed}"])
	require.InDelta(t, w.total(), got["proxy_operator_probes_total{proxy,AuthFailed}"]+got["proxy_operator_probes_total{none,Healthy}"], 0)
}

func (n *network) total() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := 0
	for _, c := range n.probes {
		all += c
	}
	return all
}

// gathered returns what a collector tells, by name and values of labels; of a histogram the count.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(c))
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}
