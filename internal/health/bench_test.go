// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// noop answers at once.
type noop struct{}

func (noop) Probe(context.Context, probe.Proxy, probe.Target) probe.Outcome { return gotThrough() }
func (noop) Open(context.Context, probe.Proxy, probe.Target) probe.Outcome  { return gotThrough() }
func (noop) Control(context.Context, probe.Target) probe.Outcome            { return gotThrough() }

// BenchmarkIdleSubject measures what a proxy costs between its probes: heap, and goroutines of all 5,000 together.
func BenchmarkIdleSubject(b *testing.B) {
	const subjects = 5000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		goroutines := runtime.NumGoroutine()
		fake := clocktesting.NewFakeClock(start)
		e := New(Options{Prober: noop{}, Clock: fake, Log: logr.Discard()})
		for i := range subjects {
			e.Watch(subjectOf(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)))
		}
		for range 200 {
			fake.Step(100 * time.Millisecond)
			e.Step(b.Context())
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/subjects, "heap-bytes/subject")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
		runtime.KeepAlive(e)
	}
}

// BenchmarkLateness runs 1,000 subjects at 5 s for 10 s, by the real clock, and tells how late their rounds began. Run it
// with -benchtime=1x.
func BenchmarkLateness(b *testing.B) {
	for range b.N {
		e := New(Options{Prober: noop{}, Clock: clock.RealClock{}, Log: logr.Discard()})
		late := &lateProber{engine: e}
		e.opts.Prober = late
		for i := range 1000 {
			s := subjectOf(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
			s.Proxy.Host = s.UID
			s.Interval = 5 * time.Second
			e.Watch(s)
		}
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
		_ = e.Run(ctx)
		cancel()
		slices.Sort(late.all)
		b.ReportMetric(float64(late.all[len(late.all)*99/100].Microseconds()), "p99-late-us")
		b.ReportMetric(float64(late.all[len(late.all)-1].Microseconds()), "max-late-us")
		b.ReportMetric(float64(len(late.all)), "rounds")
	}
}

// lateProber notes when each round begins, against when it was due.
type lateProber struct {
	noop
	engine *Engine
	mu     sync.Mutex
	all    []time.Duration
}

func (l *lateProber) Probe(_ context.Context, p probe.Proxy, _ probe.Target) probe.Outcome {
	now := l.engine.opts.Clock.Now()
	l.engine.mu.Lock()
	due := l.engine.core.subjects[p.Host].due
	l.engine.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, now.Sub(due))
	return gotThrough()
}

// BenchmarkRound measures what the engine itself spends on a round, beside the probe.
func BenchmarkRound(b *testing.B) {
	fake := clocktesting.NewFakeClock(start)
	e := New(Options{Prober: noop{}, Clock: fake, Log: logr.Discard()})
	for i := range 1000 {
		s := subjectOf(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		s.Proxy.Host = s.UID
		e.Watch(s)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		at, _ := e.NextDue()
		if at.After(fake.Now()) {
			fake.SetTime(at)
		}
		e.Step(b.Context())
	}
}
