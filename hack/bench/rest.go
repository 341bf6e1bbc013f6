// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	kibi = 1 << 10
	mebi = 1 << 20
	// settled is how long a fleet must be quiet before its rest is measured, settleLimit how long that is waited for.
	settled     = 5 * time.Second
	settleLimit = time.Minute
)

// together makes a fleet at once, lets it rest, sends requests through one of its proxies, and takes it down.
func (w *world) together(ctx context.Context, r *report) error {
	all := names("fleet", w.fleet)
	progress("creating %d Proxies at once", w.fleet)
	if err := w.fleetChange(ctx, r, "fleet-ready", func() error { return w.createReady(ctx, all) }); err != nil {
		return err
	}
	if err := w.atRest(ctx, r); err != nil {
		return err
	}
	if err := w.sizes(r); err != nil {
		return err
	}
	progress("sending requests through one of them")
	if err := w.traffic(ctx, r); err != nil {
		return err
	}
	progress("deleting %d Proxies at once", w.fleet)
	if err := w.fleetChange(ctx, r, "fleet-delete", func() error { return w.deleteGone(ctx, all) }); err != nil {
		return err
	}
	left, err := w.machinePIDs()
	if err != nil {
		return err
	}
	r.atMost(0, "instances-left", float64(len(left)))
	return nil
}

// fleetChange measures a change of the whole fleet; the figures but the time are for one Proxy.
func (w *world) fleetChange(ctx context.Context, r *report, name string, change func() error) error {
	asked, did, err := w.watch(ctx, func() error {
		begun := time.Now()
		if err := change(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.show(name+"-seconds", time.Since(begun).Seconds())
		_, err := w.quiet(ctx, settled, settleLimit)
		return err
	})
	if err != nil {
		return err
	}
	n := float64(w.fleet)
	r.show(name+"-writes-object", asked.writes("")/n-1)
	r.show(name+"-writes-status", asked.writes("status")/n)
	r.show(name+"-reconciles", did.reconciles/n)
	r.show(name+"-manager-cpu-seconds", did.cpuSeconds)
	return nil
}

// atRest measures what a fleet costs to which nothing happens. fleetChange has waited until it is quiet.
func (w *world) atRest(ctx context.Context, r *report) error {
	progress("watching them at rest for %s", w.rest)
	asked, did, err := w.watch(ctx, func() error { return wait(ctx, w.rest) })
	if err != nil {
		return fmt.Errorf("watch the fleet at rest: %w", err)
	}
	r.atMost(0, "writes-at-rest", asked.allWrites())
	r.show("rest-api-reads", asked.reads("proxies")+asked.reads("secrets"))
	r.show("rest-reconciles-per-second", did.reconciles/w.rest.Seconds())
	r.show("rest-provider-calls-per-second", did.providerCalls/w.rest.Seconds())
	r.show("rest-probes", did.probes)
	r.show("rest-manager-cpu-seconds", did.cpuSeconds)
	r.show("rest-manager-rss-mib", did.residentBytes/mebi)
	return nil
}

// sizes measures what the proxies take that no request has come to yet, and what is shipped.
func (w *world) sizes(r *report) error {
	pids, err := w.machinePIDs()
	if err != nil {
		return err
	}
	var sum memory
	for _, pid := range pids {
		m, err := memoryOf(pid)
		if err != nil {
			return err
		}
		sum.resident += m.resident
		sum.private += m.private
	}
	n := float64(len(pids))
	r.show("proxy-idle-rss-mib", sum.resident/n/mebi)
	r.show("proxy-idle-private-mib", sum.private/n/mebi)
	info, err := os.Stat(w.Binary)
	if err != nil {
		return fmt.Errorf("measure the binary: %w", err)
	}
	r.show("binary-mib", float64(info.Size())/mebi)
	return nil
}
