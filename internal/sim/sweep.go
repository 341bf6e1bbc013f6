// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/internal/sim/api"
	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	sweepEvery        = 5 * time.Minute // as the Sweeper of a manager has it
	operatorNamespace = "proxy-system"
	personTakes       = 2 * time.Minute // to read what a stopped sweep found, and confirm it
)

// limits of each account, so narrow that a fleet meets them.
var limits = providers.Limits{CallsPerSecond: 1, Burst: 5}

// sweepKey is the entry of the sweeps in a process's queue. No Proxy has that name: it has no namespace.
var sweepKey = types.NamespacedName{Name: "sweep"}

// guard puts the guards around every account, and a mutant's bug around those.
func (p *process) guard() {
	m := p.w.mutant
	if m == nil || !m.unlimited {
		p.r.Guard(workers)
	}
	if m == nil || m.guarded == nil {
		return
	}
	for name, acc := range p.r.Providers {
		acc.Provider = m.guarded(acc.Provider)
		p.r.Providers[name] = acc
	}
}

// startSweeps gives the process its collector of orphans, as the product wires it.
func (p *process) startSweeps(c client.Client) {
	p.sweeper = &controllers.Collector{
		Providers: p.r.Providers, Cache: c, Live: p.r.APIReader, Store: c, Namespace: operatorNamespace, Installation: installation,
		Watched: []string{namespace}, Recorder: recorder{p.w}, Clock: skewed{p}, Log: logr.New(sink{p.w}), Metrics: p.w.sweeps,
		Busy: p.r.Creating, Since: p.w.now().Add(p.skew), Deadline: p.deadline, Unguarded: p.r.Unguarded,
	}
	p.queue[sweepKey] = p.w.now().Add(sweepEvery)
}

// sweep is what the Sweeper does at each tick.
func (p *process) sweep(ctx context.Context) error {
	var errs []error
	for _, account := range slices.Sorted(maps.Keys(p.sweeper.Providers)) {
		if ctx.Err() == nil {
			errs = append(errs, p.sweeper.Sweep(ctx, account))
		}
	}
	return errors.Join(errs...)
}

// Create implements client.Writer: the collector's ConfigMap.
func (d apiDoor) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return d.note(ctx, o, func() error { return d.Client.Create(ctx, o, opts...) })
}

// Update implements client.Writer.
func (d apiDoor) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return d.note(ctx, o, func() error { return d.Client.Update(ctx, o, opts...) })
}

// Delete implements client.Writer.
func (d apiDoor) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return d.note(ctx, o, func() error { return d.Client.Delete(ctx, o, opts...) })
}

// note writes what a stopped sweep found. A person confirms it after a while, unless the plan has somebody who does.
func (d apiDoor) note(ctx context.Context, o client.Object, do func() error) error {
	w := d.p.w
	err := d.p.through(ctx, &call{op: NoteWrite, key: client.ObjectKeyFromObject(o)}, do)
	if err == nil {
		w.noted = w.now()
	}
	if err == nil && !slices.ContainsFunc(w.plan.Users, func(h Happening) bool { return h.Kind == "confirm" }) {
		w.later(personTakes, w.confirm)
	}
	return err
}

// notes are the ConfigMaps of stopped sweeps that are there.
func (w *World) notes() []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	for _, account := range accounts {
		id := types.NamespacedName{Namespace: operatorNamespace, Name: "proxy-operator-orphans-" + account + "-" + installation}
		if n, ok := w.api.Newest(api.ConfigMaps, id).(*corev1.ConfigMap); ok {
			out = append(out, n)
		}
	}
	return out
}

// confirm agrees to every stopped sweep, as it is. Nobody does while Proxies are missing.
func (w *World) confirm() {
	if len(w.away) > 0 {
		return
	}
	for _, n := range w.notes() {
		if n.Data["confirm"] == n.Data["sweep"] {
			continue
		}
		q := n.DeepCopy()
		q.Data["confirm"] = q.Data["sweep"]
		w.must(w.api.Client().Update(context.Background(), q))
		w.confirmed = w.now()
		w.note("     %-8s user: confirms %s of %s", w.since(), n.Data["found"], n.Data["total"])
	}
}
