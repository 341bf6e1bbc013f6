// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/operator"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

const (
	probeEvery   = 5 * time.Second
	probeTimeout = 10 * time.Second
	probeTurns   = 4 // intervals that the engine is watched for
	bareTurns    = 2 // and the bare prober, before it and again after it
	probesLimit  = 2 * time.Minute

	latenessMillis = 250.0
	cpuRatio       = 1.3
	heapKibibytes  = 8.0

	brokenEach    = 50   // proxies of each kind
	brokenProbes  = 2000 // of each kind
	brokenEvery   = 100 * time.Millisecond
	brokenTimeout = 100 * time.Millisecond

	loopback = "127.0.0.1"
	tcpmux   = 1 // a port that nobody listens on
)

// probes measures the health engine on proxies that are one process. Nothing else of the bench runs meanwhile: what this
// process spends, and has open, is the prober's.
func (w *world) probes(ctx context.Context, r *report) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	far, err := startFarEnd(ctx, w.Dir)
	if err != nil {
		return err
	}
	expectEnd := far.FailOnEnd(fail)
	defer func() {
		expectEnd()
		err = errors.Join(err, far.End(operator.Grace))
	}()
	err = w.probeFleet(ctx, far, r)
	if err == nil {
		err = probeBroken(ctx, far, r)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// probeFleet measures a fleet at work and then at rest. The bare prober has its turns before and after, so that a busy
// moment of the machine doesn't decide which of both looks cheaper.
func (w *world) probeFleet(ctx context.Context, far *farEnd, r *report) error {
	n := w.options.probes
	progress("probing %d proxies every %s", n, probeEvery)
	bare := newBare(far)
	if err := bare.run(ctx, n, bareTurns); err != nil {
		return err
	}
	base, err := least(ctx)
	if err != nil {
		return err
	}
	e, err := startEngine(ctx)
	if err != nil {
		return err
	}
	defer e.stop()
	e.watchAll(far.subjects("proxy", n, far.Proxy))
	if err := e.until(ctx, probesLimit, func(s reading) bool { return s.verdicts[string(health.Healthy)] == float64(n) }); err != nil {
		return fmt.Errorf("wait for %d proxies to be healthy: %w", n, err)
	}
	if err := wait(ctx, probeEvery); err != nil { // each has found its place in the interval
		return err
	}
	seen, ours, err := e.watchWork(ctx)
	if err != nil {
		return err
	}
	if err := e.atRest(ctx, r, far.subjects("proxy", n, far.Proxy), base); err != nil {
		return err
	}
	e.stop()
	if err := bare.run(ctx, n, bareTurns); err != nil {
		return err
	}
	r.show("probe-rounds-per-second", seen.rounds()/(probeTurns*probeEvery).Seconds())
	r.show("probe-lateness-p50-ms", 1000*seen.lateness(0.5))
	r.atMost(latenessMillis, "probe-lateness-p99-ms", 1000*seen.lateness(0.99))
	r.atMost(0, "probe-failures", seen.probes()-seen.reasons[string(probe.ReasonHealthy)])
	r.show("probe-cpu-ms-per-1000", ours.millisPer1000())
	r.show("probe-bare-cpu-ms-per-1000", bare.spent.millisPer1000())
	r.atMost(cpuRatio, "probe-cpu-ratio", ours.millisPer1000()/bare.spent.millisPer1000())
	return nil
}

// watchWork measures the engine at its work, with all that belongs to it.
func (e *engine) watchWork(ctx context.Context) (seen reading, spent effort, err error) {
	before, err := e.read()
	if err != nil {
		return seen, spent, err
	}
	if err := spent.of(func() error { return wait(ctx, probeTurns*probeEvery) }); err != nil {
		return seen, spent, err
	}
	now, err := e.read()
	if err != nil {
		return seen, spent, err
	}
	seen = now.since(before)
	spent.probes = seen.probes()
	return seen, spent, nil
}

// atRest measures what proxies cost between two of their rounds: it lets them have one more, and then none for long.
func (e *engine) atRest(ctx context.Context, r *report, all []health.Subject, base footprint) error {
	for i := range all {
		all[i].Interval = time.Hour
	}
	e.watchAll(all)
	if err := wait(ctx, probeEvery); err != nil {
		return err
	}
	now, err := least(ctx)
	if err != nil {
		return err
	}
	r.atMost(heapKibibytes, "probe-idle-heap-kib", (now.heap-base.heap)/kibi/float64(len(all)))
	r.atMost(1, "probe-idle-goroutines", float64(now.goroutines-base.goroutines)) // the engine's own
	return nil
}

// probeBroken measures what is left of failures: while the engine still runs, but has nobody to probe any more.
func probeBroken(ctx context.Context, far *farEnd, r *report) error {
	kinds := map[probe.Reason]int{
		probe.ReasonConnectRefused: tcpmux, probe.ReasonTimeout: far.Hanging, probe.ReasonReset: far.Resetting,
	}
	progress("probing proxies that refuse, hang and reset, %d times each", brokenProbes)
	base, err := least(ctx)
	if err != nil {
		return err
	}
	e, err := startEngine(ctx)
	if err != nil {
		return err
	}
	defer e.stop()
	var all []health.Subject
	for reason, port := range kinds {
		all = append(all, far.subjects(string(reason), brokenEach, port)...)
	}
	for i := range all {
		all[i].Interval, all[i].Timeout = brokenEvery, brokenTimeout
	}
	e.watchAll(all)
	err = e.until(ctx, probesLimit, func(s reading) bool {
		for reason := range kinds {
			if s.reasons[string(reason)] < brokenProbes {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("wait for probes to fail: %w", err)
	}
	for _, s := range all {
		e.Forget(s.UID)
	}
	now, err := least(ctx)
	if err != nil {
		return err
	}
	r.atMost(1, "probe-failed-goroutines", float64(now.goroutines-base.goroutines)) // the engine's own
	r.atMost(0, "probe-failed-descriptors", float64(now.descriptors-base.descriptors))
	return nil
}

// subjects are proxies at one port, each of which the engine takes for a machine of its own.
func (f *farEnd) subjects(prefix string, n, port int) []health.Subject {
	all := make([]health.Subject, n)
	for i := range all {
		uid := fmt.Sprintf("%s-%024d", prefix, i)
		all[i] = health.Subject{
			UID: uid, Incarnation: 1, Pool: prefix, Proxy: probe.Proxy{Host: uid, Port: port, Protocol: probe.HTTP, Trusted: true},
			Targets: []probe.Target{{URL: f.Judge, Judge: true, Trusted: true, RootCAs: f.roots}}, Interval: probeEvery,
			Timeout: probeTimeout, FailureThreshold: 3, SuccessThreshold: 2,
		}
	}
	return all
}

// sameMachine sends all probes to one machine, whatever the host: the engine never probes two proxies of one host at a time,
// and not every system has a thousand addresses of its own.
type sameMachine struct{ *probe.Prober }

// Probe implements health.Prober.
func (s sameMachine) Probe(ctx context.Context, p probe.Proxy, t probe.Target) probe.Outcome {
	p.Host = loopback
	return s.Prober.Probe(ctx, p, t)
}
