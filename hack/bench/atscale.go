// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/hack/bench/cloud"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const (
	restAccount  = "rest"
	quotaAccount = "quota"
	otherAccount = "other"

	pageOfCloud    = 500
	bootOfCloud    = 2 * time.Second
	quotaPerSecond = 20.0
	// The cloud's burst is a little more than the operator's own, which is 40: on the way calls come closer together.
	quotaBurst = 60.0

	tick  = time.Minute // a fleet at rest is looked at once in each
	ticks = 2           // that are watched

	bystanders   = 50               // Proxies that come or go while many are created
	heldUpAfter  = 10 * time.Second // that they may take; alone it is two to five
	quotaSlack   = 1.2
	restartLimit = 30.0
	cpuPercent   = 5.0
	scaleReady   = 20 * time.Minute // for the fleet to come
)

func scaleZones() []string { return []string{"a", "b", "c", "d"} }

// scale is a fleet on a cloud in this program's memory, with a manager of its own.
type scale struct {
	*world
	cloud *cloud.Cloud
	url   string
}

// atScale measures what a fleet costs that no machine could hold as processes.
func (w *world) atScale(ctx context.Context, r *report) error {
	s := &scale{world: w, cloud: cloud.New(cloud.Options{
		Zones: scaleZones(), PageSize: pageOfCloud, Boot: bootOfCloud, Clock: clock.RealClock{},
		Quotas: map[string]cloud.Quota{quotaAccount: {PerSecond: quotaPerSecond, Burst: quotaBurst}},
	})}
	server := httptest.NewServer(s.cloud)
	defer server.Close()
	s.url = server.URL
	if err := s.exchangeManager(ctx); err != nil {
		return err
	}
	progress("creating %d Proxies on a cloud in memory", w.options.scale)
	begun := time.Now()
	if err := w.createReadyIn(ctx, restAccount, names("scale", w.options.scale), scaleReady); err != nil {
		return err
	}
	r.show("scale-ready-seconds", time.Since(begun).Seconds())
	for _, measure := range []func(context.Context, *report) error{s.atRest, s.restart, s.burst} {
		if err := measure(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// exchangeManager ends the manager that is there, and starts this program as one.
func (s *scale) exchangeManager(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own binary: %w", err)
	}
	s.expectEnd()
	if err := s.Manager.End(operator.Grace); err != nil {
		return err
	}
	if s.Manager, err = operator.NewManager(s.Dir, self, s.StateDir(), s.Cluster.Kubeconfig); err != nil {
		return err
	}
	return s.launch(ctx, "--cloud="+s.url)
}

// atRest measures a fleet to which nothing happens.
func (s *scale) atRest(ctx context.Context, r *report) error {
	if _, err := s.quiet(ctx, settled, settleLimit); err != nil {
		return err
	}
	progress("watching %d Proxies at rest for %s", s.options.scale, ticks*tick)
	before := s.cloud.Calls(restAccount)
	asked, did, err := s.watch(ctx, func() error { return wait(ctx, ticks*tick) })
	if err != nil {
		return err
	}
	calls := s.cloud.Calls(restAccount).Since(before)
	pages := (s.options.scale + pageOfCloud - 1) / pageOfCloud
	r.atMost(float64(pages+len(scaleZones())), "scale-list-calls-per-tick", float64(calls.Lists)/ticks)
	r.atMost(0, "scale-gets", float64(calls.Gets))
	r.atMost(0, "scale-changes", float64(calls.Changes()))
	r.atMost(0, "scale-writes", asked.allWrites())
	r.atMost(cpuPercent, "scale-manager-cpu-percent", 100*did.cpuSeconds/(ticks*tick).Seconds())
	r.show("scale-manager-rss-mib", did.residentBytes/mebi)
	return nil
}

// restart measures how long a fresh manager takes to have looked at every Proxy.
func (s *scale) restart(ctx context.Context, r *report) error {
	progress("killing the manager, and starting another one")
	before, err := s.requests(ctx)
	if err != nil {
		return err
	}
	asked := s.cloud.Calls(restAccount)
	s.expectEnd()
	if err := s.Manager.Kill(); err != nil {
		return err
	}
	begun := time.Now()
	if err := s.launch(ctx, "--cloud="+s.url); err != nil {
		return err
	}
	if err := s.awaitAllReconciled(ctx); err != nil {
		return err
	}
	r.atMost(restartLimit, "scale-restart-seconds", time.Since(begun).Seconds())
	after, err := s.quiet(ctx, settled, settleLimit)
	if err != nil {
		return err
	}
	calls := s.cloud.Calls(restAccount).Since(asked)
	r.atMost(0, "scale-restart-changes", float64(calls.Changes()))
	r.atMost(0, "scale-restart-writes", after.since(before).allWrites())
	r.show("scale-restart-calls", float64(calls.Lists+calls.Gets))
	return nil
}

// awaitAllReconciled returns when there were as many passes as there are Proxies, and none waits for one.
func (s *scale) awaitAllReconciled(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fleetLimit, fmt.Errorf("not there after %s", fleetLimit))
	defer cancel()
	for {
		u, err := s.managerUsage(ctx)
		if err != nil {
			return err
		}
		if int(u.reconciles) >= s.options.scale && u.queued == 0 {
			return nil
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("wait for all Proxies to be looked at, of which %.0f passes were made: %w", u.reconciles, err)
		}
	}
}

// burst creates many Proxies at once in an account whose cloud lets only so many calls in, and looks who waits for them.
func (s *scale) burst(ctx context.Context, r *report) error {
	progress("creating %d Proxies at once under %.0f calls a second", s.options.burst, quotaPerSecond)
	going, others := names("going", bystanders), names("other", bystanders)
	if err := s.createReadyIn(ctx, quotaAccount, going, fleetLimit); err != nil {
		return err
	}
	if err := wait(ctx, time.Duration(quotaBurst/quotaPerSecond)*time.Second); err != nil { // the quota fills up again
		return err
	}
	asked := s.cloud.Calls(quotaAccount)
	took := make([]time.Duration, 3)
	failed := make(chan error, len(took))
	for n, do := range []func() error{
		func() error { return s.createReadyIn(ctx, quotaAccount, names("burst", s.options.burst), scaleReady) },
		func() error { return s.deleteGone(ctx, going) },
		func() error { return s.createReadyIn(ctx, otherAccount, others, fleetLimit) },
	} {
		begun := time.Now()
		go func() {
			err := do()
			took[n] = time.Since(begun)
			failed <- err
		}()
	}
	var errs []error
	for range took {
		errs = append(errs, <-failed)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	calls := s.cloud.Calls(quotaAccount).Since(asked)
	// The burst that the operator may have at the beginning is left out: a second or two.
	r.atMost(quotaSlack*float64(s.options.burst+bystanders)/quotaPerSecond, "scale-burst-seconds", took[0].Seconds())
	r.atMost(0, "scale-burst-rejected", float64(calls.Rejected))
	r.atMost(heldUpAfter.Seconds(), "scale-burst-deletions-seconds", took[1].Seconds())
	r.atMost(heldUpAfter.Seconds(), "scale-burst-other-account-seconds", took[2].Seconds())
	r.show("scale-burst-reads", float64(calls.Lists+calls.Gets))
	return nil
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
