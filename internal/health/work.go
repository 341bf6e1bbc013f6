// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// do does one job. When the context ends in it, what it found says nothing, and is dropped.
func (e *Engine) do(ctx context.Context, j *job) {
	var r round
	if j.control != nil {
		e.control(ctx, j.control, j.started, true)
	} else {
		r = e.round(ctx, j)
	}
	if ctx.Err() != nil {
		r = round{}
	}
	now := e.opts.Clock.Now()
	e.mu.Lock()
	e.core.result(j, r, now)
	e.mu.Unlock()
	e.tell()
}

// round probes the targets until the rest can't change the outcome, then asks for what the judgement needs beside it. The
// probes together take an interval at most: who never answers must not have a worker for as long as there are targets.
func (e *Engine) round(ctx context.Context, j *job) round {
	var r round
	s := &j.subject
	r.outcomes = make([]probe.Outcome, 0, len(s.Targets))
	end := e.opts.Clock.Now().Add(max(s.Interval, s.Timeout))
	for i, t := range s.Targets {
		began := e.opts.Clock.Now()
		o := within(ctx, timeFor(s.Timeout, end.Sub(began), len(s.Targets), i), func(ctx context.Context) probe.Outcome { return e.opts.Prober.Probe(ctx, s.Proxy, t) })
		e.metrics.probed(o, e.opts.Clock.Since(began))
		r.outcomes = append(r.outcomes, o)
		if ctx.Err() != nil || decided(r.outcomes, len(s.Targets), s.Quorum) {
			break
		}
	}
	asked := e.opts.Clock.Now()
	for i, o := range r.outcomes {
		switch {
		case j.doubted && e.opts.Clock.Since(asked) < s.Timeout && o.Fault == probe.FaultProxy && stageOf(o.Reason) != atProxy:
			e.control(ctx, j.witnesses[i], j.started, false)
		case j.open && r.open == nil && o.Fault == probe.FaultNone:
			open := within(ctx, s.Timeout, func(ctx context.Context) probe.Outcome { return e.opts.Prober.Open(ctx, s.Proxy, s.Targets[i]) })
			r.open = &open
		}
	}
	return r
}

// timeFor is how long the probe of one of so many targets may take, when so much of the round's time is left: its timeout, but
// no more than its share of that.
func timeFor(timeout, left time.Duration, targets, nth int) time.Duration {
	return max(timeout/time.Duration(targets), min(timeout, left/time.Duration(targets-nth)))
}

// control asks for a target without a proxy, unless somebody has done so since a time. Many who doubt the same target wait
// for one request.
func (e *Engine) control(ctx context.Context, w *witness, since time.Time, planned bool) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-w.turn }()
	e.mu.Lock()
	wanted, timeout := w.wanted(since, planned), w.timeout
	e.mu.Unlock()
	if !wanted {
		return
	}
	o := within(ctx, timeout, func(ctx context.Context) probe.Outcome { return e.opts.Prober.Control(ctx, w.target) })
	if ctx.Err() != nil {
		return
	}
	now := e.opts.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.core.controlled(w, o, now)
}

func within(ctx context.Context, d time.Duration, ask func(context.Context) probe.Outcome) probe.Outcome {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return ask(ctx)
}
