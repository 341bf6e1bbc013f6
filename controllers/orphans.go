// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/proxy-operator/proxy-operator/providers"
)

// sweepEvery is the time between two sweeps of an account, and before the first one.
const sweepEvery = 5 * time.Minute

// youngLeadership is how long a new leader doesn't sweep: the old one may still be finishing a create.
const youngLeadership = 30 * time.Second

// apiCalm is how long no account is swept after the API server gave an error.
const apiCalm = time.Minute

// Collector finds the machines of this installation that no Proxy owns any more, and deletes or reports them as the mode
// of their account says. The conditions are in docs/operations.md; orphans_judge.go has them as pure functions. What it
// remembers is lost with the process; then it only takes a sweep longer. It isn't for use from several goroutines.
type Collector struct {
	Providers    providers.Registry // the accounts
	Cache        client.Reader      // Proxies, maybe old: enough to know that one exists
	Live         client.Reader      // the API server: Proxies before they are believed gone, and the ConfigMap
	Store        client.Writer      // writes the ConfigMap of a stopped sweep
	Namespace    string             // the operator's own, for that ConfigMap; empty: not known, then nobody can confirm
	Installation string             // providers.InstallationID
	Watched      []string           // namespaces; nil: all
	Recorder     events.EventRecorder
	Clock        clock.PassiveClock
	Log          logr.Logger
	Metrics      *OrphanMetrics

	// Busy reports whether this process has a create under way for the Proxy with that UID; nil: never.
	Busy func(uid string) bool
	// Since is when this process became the leader; the zero time is long ago.
	Since time.Time

	// For internal/sim alone, nil in the product: deadlines by a virtual clock, and precautions to leave out.
	Deadline  func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	Unguarded map[Guard]bool

	apiFailed time.Time // when the API server last gave an error
	memory    map[string]*sightings
}

// The results of a sweep, a label of proxy_operator_orphan_sweeps_total.
const (
	sweepDone    = "done"
	sweepStopped = "stopped" // too many orphans: a person must confirm
	sweepFailed  = "failed"  // an error, or a delete that a guard held back; the next sweep goes on
	sweepSkipped = "skipped" // it isn't the time for it
)

// Sweep looks once through one account and acts. It starts no goroutine and waits for nothing but its calls. An error
// means that the sweep ended early: nothing is forgotten, and nothing was deleted on account of what couldn't be read. In
// mode Off, and in an account that isn't configured, it does nothing.
func (c *Collector) Sweep(ctx context.Context, account string) error {
	acc, ok := c.Providers[account]
	if !ok || acc.Orphans == "" || acc.Orphans == providers.OrphansOff {
		return nil
	}
	if why := c.notNow(); why != "" {
		c.Log.Info("no sweep for orphans now", "account", account, "why", why)
		c.Metrics.swept(account, sweepSkipped)
		return nil
	}
	result, err := c.sweep(ctx, acc)
	c.Metrics.swept(account, result)
	if err != nil {
		return fmt.Errorf("sweep account %s for orphans: %w", account, err)
	}
	return nil
}

// notNow tells why nothing can be believed yet.
func (c *Collector) notNow() string {
	now := c.Clock.Now()
	switch {
	case !c.Since.IsZero() && now.Sub(c.Since) < youngLeadership:
		return "this process has just become the leader"
	case !c.apiFailed.IsZero() && now.Sub(c.apiFailed) < apiCalm:
		return "the API server gave an error within the last minute"
	default:
		return ""
	}
}

func (c *Collector) sweep(ctx context.Context, acc providers.Account) (string, error) {
	now := c.Clock.Now()
	found, err := c.find(ctx, acc, now)
	if err != nil {
		return sweepFailed, err
	}
	mem := c.remember(acc.Name, found, now)
	t := tallyOf(acc.Orphans, found, mem)
	t.Uncapped = c.off(GuardSweepCap)
	plan := t.plan()
	if plan == planStop {
		if t.Confirmed, err = c.confirmed(ctx, acc.Name, waiting(found, mem)); err != nil {
			return sweepFailed, err
		}
		plan = t.plan()
	}
	c.Metrics.found(acc.Name, found, t, plan)
	switch plan {
	case planReport:
		c.report(found, mem)
		return ending(true, c.nothingToConfirm(ctx, acc.Name, mem))
	case planStop:
		if err := c.stop(ctx, acc.Name, t, waiting(found, mem), mem); err != nil {
			return sweepFailed, err
		}
		return sweepStopped, nil
	case planDelete:
		all, err := c.deleteAll(ctx, acc, found, mem)
		if err == nil && all {
			err = c.nothingToConfirm(ctx, acc.Name, mem)
		}
		return ending(all, err)
	case planWait:
	}
	return sweepDone, nil
}

func ending(all bool, err error) (string, error) {
	if err != nil || !all {
		return sweepFailed, err
	}
	return sweepDone, nil
}

// within bounds a call, by the wall clock.
func (c *Collector) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if c.Deadline != nil {
		return c.Deadline(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}

// Sweeper runs a Collector in a manager: every account, one after the other, every five minutes while this process is the
// leader.
type Sweeper struct {
	Collector *Collector
	Clock     clock.WithTicker

	failed map[string]string // by account, how its last sweep ended early
}

var (
	_ manager.Runnable               = &Sweeper{}
	_ manager.LeaderElectionRunnable = &Sweeper{}
)

// NeedLeaderElection implements manager.LeaderElectionRunnable: two collectors at once would each know half.
func (s *Sweeper) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. The manager calls it when caches are synced. It returns nil when ctx ends.
func (s *Sweeper) Start(ctx context.Context) error {
	s.Collector.Since = s.Clock.Now()
	ticker := s.Clock.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			s.sweepAll(ctx)
		}
	}
}

func (s *Sweeper) sweepAll(ctx context.Context) {
	for _, account := range slices.Sorted(maps.Keys(s.Collector.Providers)) {
		if ctx.Err() != nil {
			return
		}
		s.tell(account, s.Collector.Sweep(ctx, account))
	}
}

// tell logs that a sweep ended early; not again, as long as the next ones end in the same way.
func (s *Sweeper) tell(account string, err error) {
	if err == nil {
		delete(s.failed, account)
		return
	}
	if s.failed[account] == err.Error() {
		return
	}
	if s.failed == nil {
		s.failed = map[string]string{}
	}
	s.failed[account] = err.Error()
	s.Collector.Log.Error(err, "a sweep for orphans ended early; the next one tries again, and tells only if it ends otherwise", "account", account)
}
