// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

// pause is how long the operator must not write for a change to count as over. It lets a write that a stale read brings
// about be counted too.
const pause = 500 * time.Millisecond

// cost is what the operator wrote for one change to one Proxy; the user's own write isn't counted.
type cost struct{ object, status float64 }

// oneByOne lets Proxies come and go one after another, so that each write is known to be for one of them.
func (w *world) oneByOne(ctx context.Context, r *report) error {
	progress("creating and deleting %d Proxies, one after another", w.singles)
	created, deleted := make([]cost, 0, w.singles), make([]cost, 0, w.singles)
	var took time.Duration
	for _, name := range names("single", w.singles) {
		begun := time.Now()
		c, err := w.cost(ctx, func() error {
			err := w.createReady(ctx, []string{name})
			took += time.Since(begun)
			return err
		})
		if err != nil {
			return fmt.Errorf("create one: %w", err)
		}
		created = append(created, c)
	}
	for _, name := range names("single", w.singles) {
		c, err := w.cost(ctx, func() error { return w.deleteGone(ctx, []string{name}) })
		if err != nil {
			return fmt.Errorf("delete one: %w", err)
		}
		deleted = append(deleted, c)
	}
	object := func(c cost) float64 { return c.object }
	status := func(c cost) float64 { return c.status }
	both := func(c cost) float64 { return c.object + c.status }
	for _, f := range []struct {
		name   string
		target float64
		costs  []cost
		of     func(cost) float64
	}{
		{"writes-to-ready-object", 1, created, object},
		{"writes-to-ready-status", 3, created, status}, // asked for; runs; proved
		{"writes-delete", 2, deleted, both},
	} {
		mean, most := meanAndMax(f.costs, f.of)
		r.atMost(f.target, f.name, mean)
		r.atMost(f.target, f.name+"-max", most)
	}
	r.show("single-ready-seconds", took.Seconds()/float64(w.singles))
	return nil
}

// cost counts the operator's writes for one change, which itself is one write of the user.
func (w *world) cost(ctx context.Context, change func() error) (cost, error) {
	before, err := w.requests(ctx)
	if err != nil {
		return cost{}, err
	}
	if err := change(); err != nil {
		return cost{}, err
	}
	after, err := w.quiet(ctx, pause, time.Minute)
	if err != nil {
		return cost{}, err
	}
	d := after.since(before)
	return cost{object: d.writes("") - 1, status: d.writes("status")}, nil
}

func meanAndMax(costs []cost, of func(cost) float64) (mean, most float64) {
	for _, c := range costs {
		mean += of(c)
		most = max(most, of(c))
	}
	return mean / float64(len(costs)), most
}
