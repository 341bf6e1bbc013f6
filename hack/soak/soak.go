// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const (
	namespace = "default"

	progressEvery = 10 * time.Second
	lookEvery     = 2 * time.Second
)

// soak is one run.
type soak struct {
	options
	*operator.World
	kube   client.Client
	wanted *wanted
	origin *origin
	begun  time.Time
	fail   context.CancelCauseFunc

	telling  sync.Mutex
	progress io.Writer

	kills   atomic.Int64
	doubled atomic.Int64 // moments at which a Proxy had two machines
	proxies int          // at the end of the churn
	verdict verdict      // once it has settled
	left    int          // after the deletion of all
}

// probes are the manager's flags for a machine with so much to do that an answer may take its time. Who is slow is found
// unhealthy, and isn't replaced for it before it had the time to recover.
func probes() []string {
	return []string{"--health-interval=5s", "--health-timeout=3s", "--unhealthy-timeout=1m"}
}

func newSoak(o options, w *operator.World, progress io.Writer, fail context.CancelCauseFunc) *soak {
	return &soak{options: o, World: w, wanted: newWanted(), begun: time.Now(), progress: progress, fail: fail}
}

// play runs the phases. Its error is that the soak itself couldn't go on; what the operator did wrong is in exact.
func (s *soak) play(ctx context.Context) (err error) {
	if s.origin, err = startOrigin(); err != nil {
		return err
	}
	defer s.origin.close()
	s.tell("starting the control plane")
	if err := s.Start(ctx, s.fail); err != nil {
		return err
	}
	s.kube = s.Cluster.Client
	if err := s.storm(ctx); err != nil {
		return err
	}
	s.tell("no more changes and kills; the newest kill leaves creates open for up to 90 s")
	if err := s.Manager.LaunchReady(ctx, probes()...); err != nil {
		return err
	}
	defer s.Manager.FailOnEnd(s.fail)()
	if err := s.settled(ctx); err != nil {
		return err
	}
	return s.deleteAll(ctx)
}

// storm lets users change things and kills the manager, until the time is over.
func (s *soak) storm(ctx context.Context) error {
	storm, cancel := context.WithTimeout(ctx, s.churn)
	defer cancel()
	var all sync.WaitGroup
	for _, part := range []func(context.Context) error{s.users, s.killer, s.watch} {
		all.Go(func() {
			if err := part(storm); err != nil {
				s.fail(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("change Proxies: %w", context.Cause(ctx))
	}
	s.proxies = s.wanted.count()
	return nil
}

// killer runs the manager and kills it, at moments that the seed chooses: also while it starts.
func (s *soak) killer(ctx context.Context) error {
	dice := rand.New(rand.NewPCG(s.seed, 2)) //nolint:gosec // moments, no secrets
	for {
		if err := s.Manager.Launch(probes()...); err != nil {
			return err
		}
		timer := time.NewTimer(s.killEvery/2 + time.Duration(dice.Int64N(int64(s.killEvery))))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.Manager.Done():
			timer.Stop()
			if !s.Manager.LostPort() {
				return s.Manager.How()
			}
			continue
		}
		timer.Stop()
		if err := s.Manager.Kill(); err != nil {
			return err
		}
		if s.kills.Add(1); over(ctx) {
			return nil
		}
	}
}

func over(ctx context.Context) bool { return ctx.Err() != nil }

// watch tells how it goes, and looks whether some Proxy has two machines.
func (s *soak) watch(ctx context.Context) error {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		seen, err := s.look(ctx)
		if over(ctx) {
			return nil
		}
		if err != nil {
			return err
		}
		s.tell("%s, %d edits, %d kills", seen.summary(), s.wanted.edits.Load(), s.kills.Load())
		again, err := operator.RunningMachines(context.WithoutCancel(ctx), s.StateDir())
		if err != nil {
			return err
		}
		for owner, machines := range doubles(seen.running, again) {
			s.doubled.Add(1)
			s.tell("WRONG: Proxy %s has %d machines at once: %v", owner, len(machines), machines)
		}
	}
}

// settled waits until everything is as wanted, for as long as that may take, and tells what isn't.
func (s *soak) settled(ctx context.Context) error {
	started := time.Now()
	seen, v, err := s.await(ctx, func(seen *seen) verdict {
		v := judge(s.wanted.copy(), seen)
		if v.exact() {
			v.add(s.visitAll(ctx, seen))
		}
		return v
	})
	if err != nil {
		return err
	}
	s.verdict = v
	if v.exact() {
		s.tell("settled after %s: %s, each answers a request", time.Since(started).Round(time.Second), seen.summary())
	} else {
		s.describe(seen, v)
	}
	return nil
}

// deleteAll deletes all Proxies and waits until nothing is left of them.
func (s *soak) deleteAll(ctx context.Context) error {
	started := time.Now()
	if err := s.deleteProxies(ctx); err != nil {
		return err
	}
	seen, v, err := s.await(ctx, func(seen *seen) verdict { return judge(nil, seen) })
	if err != nil {
		return err
	}
	if s.left = v.leftOver(); s.left > 0 {
		s.tell("after the deletion of all Proxies:")
		s.describe(seen, v)
	} else {
		s.tell("all are deleted after %s: no Proxy, no process and no folder is left", time.Since(started).Round(time.Second))
	}
	return nil
}

// await looks again and again until the verdict is exact or the limit has passed, and returns the last one.
func (s *soak) await(ctx context.Context, look func(*seen) verdict) (*seen, verdict, error) {
	limit, told := time.Now().Add(s.settle), time.Now()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		now, err := s.look(ctx)
		if err != nil {
			return nil, verdict{}, err
		}
		v := look(now)
		if v.exact() || time.Now().After(limit) {
			return now, v, nil
		}
		if time.Since(told) > progressEvery {
			told = time.Now()
			s.tell("%s; %d wrong: %s", now.summary(), len(v.wrong), v.first())
		}
		select {
		case <-ctx.Done():
			return nil, verdict{}, fmt.Errorf("wait for everything to settle: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// line is the last one.
func (s *soak) line() string {
	return fmt.Sprintf("soak: %d proxies, %d edits, %d kills; %d machines, %d missing, %d left over",
		s.proxies, s.wanted.edits.Load(), s.kills.Load(), s.verdict.machines, s.verdict.missing(), s.verdict.leftOver()+s.left)
}

func (s *soak) exact() bool {
	return s.verdict.exact() && s.verdict.machines == s.proxies && s.left == 0 && s.doubled.Load() == 0
}

// tell prints a line of progress, with the time since the start.
func (s *soak) tell(format string, args ...any) {
	s.telling.Lock()
	defer s.telling.Unlock()
	at := int(time.Since(s.begun).Seconds())
	_, _ = fmt.Fprintf(s.progress, "%d:%02d %s\n", at/60, at%60, fmt.Sprintf(format, args...))
}

func (s *soak) keepLog() {
	kept, err := s.KeepLog()
	switch {
	case err != nil:
		s.tell("%v", err)
	case kept != "":
		s.tell("the operator's whole log is kept in %s", kept)
	}
}
