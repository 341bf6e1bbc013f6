// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

const sessions = 1024 // as in cmd

// engine is a health engine at work.
type engine struct {
	*health.Engine
	registry *prometheus.Registry
	stop     func() // returns when all that the engine started has ended
}

// startEngine starts an engine as cmd does.
func startEngine(ctx context.Context) (*engine, error) {
	e := &engine{registry: prometheus.NewRegistry(), Engine: health.New(health.Options{
		Prober: sameMachine{&probe.Prober{Timeout: probeTimeout, Sessions: tls.NewLRUClientSessionCache(sessions)}},
		Clock:  clock.RealClock{}, Log: logr.Discard(),
	})}
	if err := e.registry.Register(e.Engine); err != nil {
		return nil, fmt.Errorf("register the engine's metrics: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx) }) // it returns nil
	e.stop = func() {
		cancel()
		running.Wait()
	}
	return e, nil
}

func (e *engine) watchAll(all []health.Subject) {
	for _, s := range all {
		e.Watch(s)
	}
}

// until returns when the metrics are as wanted, or with an error after a limit.
func (e *engine) until(ctx context.Context, limit time.Duration, done func(reading) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not there after %s", limit))
	defer cancel()
	for {
		s, err := e.read()
		if err != nil || done(s) {
			return err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// reading is what the engine's metrics tell.
type reading struct {
	late     []bucket           // rounds by how late they began; each has those before it
	reasons  map[string]float64 // probes by what came of them
	verdicts map[string]float64 // subjects by health
}

type bucket struct{ seconds, rounds float64 }

func (e *engine) read() (reading, error) {
	s := reading{reasons: map[string]float64{}, verdicts: map[string]float64{}}
	families, err := e.registry.Gather()
	if err != nil {
		return s, fmt.Errorf("read the engine's metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				switch {
				case f.GetName() == "proxy_operator_probes_total" && l.GetName() == "reason":
					s.reasons[l.GetValue()] += m.GetCounter().GetValue()
				case f.GetName() == "proxy_operator_health":
					s.verdicts[l.GetValue()] = m.GetGauge().GetValue()
				}
			}
			if f.GetName() != "proxy_operator_probe_lateness_seconds" {
				continue
			}
			for _, b := range m.GetHistogram().GetBucket() {
				s.late = append(s.late, bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
			}
			s.late = append(s.late, bucket{math.Inf(1), float64(m.GetHistogram().GetSampleCount())})
		}
	}
	return s, nil
}

// since is what came after an earlier reading.
func (s reading) since(earlier reading) reading {
	d := reading{late: make([]bucket, len(s.late)), reasons: map[string]float64{}, verdicts: s.verdicts}
	for i, b := range s.late {
		d.late[i] = bucket{b.seconds, b.rounds - earlier.late[i].rounds}
	}
	for reason, n := range s.reasons {
		d.reasons[reason] = n - earlier.reasons[reason]
	}
	return d
}

func (s reading) rounds() float64 { return s.late[len(s.late)-1].rounds }

func (s reading) probes() float64 {
	var all float64
	for _, n := range s.reasons {
		all += n
	}
	return all
}

// lateness is a quantile in seconds, as Prometheus reckons it: evenly within a bucket.
func (s reading) lateness(quantile float64) float64 {
	rank := quantile * s.rounds()
	var below bucket
	for _, b := range s.late {
		if b.rounds >= rank && b.rounds > below.rounds {
			return below.seconds + (b.seconds-below.seconds)*(rank-below.rounds)/(b.rounds-below.rounds)
		}
		below = b
	}
	return math.Inf(1) // there was no round
}

// footprint is what this process holds.
type footprint struct {
	heap        float64 // bytes that are in use
	goroutines  int
	descriptors int
}

// least returns the smallest footprint within a while: what is busy just then doesn't count.
func least(ctx context.Context) (footprint, error) {
	const times, every = 100, 20 * time.Millisecond
	f := footprint{goroutines: math.MaxInt, descriptors: math.MaxInt}
	for range times {
		open, err := os.ReadDir("/dev/fd")
		if err != nil {
			return f, fmt.Errorf("count descriptors: %w", err)
		}
		f.goroutines, f.descriptors = min(f.goroutines, runtime.NumGoroutine()), min(f.descriptors, len(open))
		if err := wait(ctx, every); err != nil {
			return f, err
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one finalized
	runtime.ReadMemStats(&m)
	f.heap = float64(m.HeapAlloc)
	return f, nil
}

// effort is the CPU time of this process for a number of probes.
type effort struct {
	cpu    time.Duration
	probes float64
}

// of adds what a function spends, with the removal of its garbage.
func (e *effort) of(do func() error) error {
	runtime.GC()
	begin, err := cpu()
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	runtime.GC()
	end, err := cpu()
	e.cpu += end - begin
	return err
}

func (e *effort) millisPer1000() float64 { return 1000 * float64(e.cpu.Milliseconds()) / e.probes }

func cpu() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read the CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
