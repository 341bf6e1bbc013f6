// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// crowded is a network of proxies some of which take connections and never answer, and of targets that don't either.
type crowded struct {
	*network
	hangs                                      sync.Map     // by host
	hung                                       atomic.Int64 // requests
	slowControls                               atomic.Bool
	controls, mostControls, atHost, mostAtHost atomic.Int64
}

func (c *crowded) Probe(ctx context.Context, p probe.Proxy, t probe.Target) probe.Outcome {
	defer high(&c.atHost, &c.mostAtHost, p.Host == "gateway")()
	if _, hangs := c.hangs.Load(p.Host); hangs || strings.HasPrefix(p.Host, "dead") {
		c.hung.Add(1)
		<-ctx.Done()
		return fault(probe.ReasonTimeout)
	}
	<-time.After(300 * time.Millisecond)
	return c.network.Probe(ctx, p, t)
}

func (c *crowded) Control(ctx context.Context, t probe.Target) probe.Outcome {
	defer high(&c.controls, &c.mostControls, true)()
	if c.slowControls.Load() || strings.Contains(t.URL, "dead") {
		<-ctx.Done()
		return targets(probe.ReasonTargetUnreachable)
	}
	return c.network.Control(ctx, t)
}

// high counts one more, if it is to count, and returns what counts it off again.
func high(n, most *atomic.Int64, counts bool) func() {
	if !counts {
		return func() {}
	}
	is := n.Add(1)
	for m := most.Load(); is > m && !most.CompareAndSwap(m, is); m = most.Load() {
	}
	return func() { n.Add(-1) }
}

// inVirtualTime runs an engine with the product's defaults in a bubble whose time passes when all in it wait.
func inVirtualTime(t *testing.T, try func(t *testing.T, e *Engine, n *crowded)) {
	synctest.Test(t, func(t *testing.T) {
		n := &crowded{network: newNetwork()}
		e := New(Options{Prober: n, Clock: clock.RealClock{}, Log: logr.Discard()})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		defer func() { // also where the test ends early: a bubble waits for all in it
			cancel()
			<-done
		}()
		try(t, e, n)
	})
}

func after(d time.Duration) { <-time.After(d) }

func healthOf(e *Engine, uid string) Health {
	v, _ := e.Verdict(uid)
	return v.Health
}

func TestHundredsThatHangDoNotDelayTheVerdictOnOneThatBreaks(t *testing.T) {
	three := []probe.Target{{URL: judgeURL, Judge: true}, {URL: "https://a.example"}, {URL: "https://b.example"}}
	cases := map[string]struct {
		why    string
		tune   func(*Subject) // of those that hang
		settle time.Duration  // from when they came until the other breaks
	}{
		"they hang for long":                    {"they are ailing", func(*Subject) {}, 10 * time.Minute},
		"they come just then":                   {"nobody knows them yet", func(*Subject) {}, 0},
		"each could wait for a whole interval":  {"a round takes no longer, however many targets there are", func(s *Subject) { s.Timeout, s.Targets = s.Interval, three }, 10 * time.Minute},
		"they come, and could wait so long too": {"the same", func(s *Subject) { s.Timeout, s.Targets = s.Interval, three }, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, e *Engine, n *crowded) {
				for i := range 100 {
					e.Watch(subjectOf(fmt.Sprint("p", i)))
				}
				after(10 * interval)
				for i := range 300 {
					s := subjectOf(fmt.Sprint("dead", i))
					s.Pool = poolOfOthers
					c.tune(&s)
					e.Watch(s)
				}
				after(c.settle)
				n.breakProxy("p42", probe.ReasonReset)
				after(2 * interval)
				require.Equal(t, Unhealthy, healthOf(e, "p42"), c.why)
				n.mendProxy("p42")
				after(2 * interval)
				require.Equal(t, Healthy, healthOf(e, "p42"), "and back")
				for i := range 100 {
					require.Equal(t, Healthy, healthOf(e, fmt.Sprint("p", i)))
				}
			})
		})
	}
}

const poolOfOthers = "external"

func TestANewProxyGoesBeforeThoseThatAreKnownToHang(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, e *Engine, _ *crowded) {
		for i := range 1000 {
			s := subjectOf(fmt.Sprint("dead", i))
			s.Timeout = s.Interval
			e.Watch(s)
		}
		after(time.Hour)
		e.Watch(subjectOf("new"))
		after(time.Second)
		require.Equal(t, Healthy, healthOf(e, "new"))
	})
}

func TestWhoHungComesBackAmongHundredsThatHang(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, e *Engine, n *crowded) {
		for i := range 300 {
			s := subjectOf(fmt.Sprint("dead", i))
			s.Timeout = s.Interval
			e.Watch(s)
		}
		n.hangs.Store("p0", true)
		e.Watch(subjectOf("p0"))
		after(time.Hour)
		require.Equal(t, Unhealthy, healthOf(e, "p0"))
		n.hangs.Delete("p0")
		after(4 * interval)
		require.Equal(t, Healthy, healthOf(e, "p0"), "its turn comes")
	})
}

func TestARoundTakesAnIntervalAtMost(t *testing.T) {
	cases := map[string]struct {
		why     string
		timeout time.Duration
		left    time.Duration
		targets int
		nth     int
		want    time.Duration
	}{
		"one target":                {"it has its timeout", 20, 20, 1, 0, 20},
		"there is time enough":      {"each has its timeout", 5, 20, 3, 0, 5},
		"there isn't":               {"each has its share", 20, 20, 4, 0, 5},
		"the first ones were quick": {"the rest is for the others", 20, 18, 4, 2, 9},
		"no more than the timeout":  {"the same", 6, 18, 4, 3, 6},
		"the time is over":          {"this machine is slow: that is no reason to ask nobody", 20, -3, 4, 3, 5},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, timeFor(c.timeout, c.left, c.targets, c.nth), c.why)
		})
	}
}

func TestARoundOfManyTargetsThatHangEnds(t *testing.T) {
	const targets = 10
	inVirtualTime(t, func(t *testing.T, e *Engine, n *crowded) {
		s := subjectOf("dead")
		s.Timeout, s.Targets = s.Interval, nil
		for i := range targets {
			s.Targets = append(s.Targets, probe.Target{URL: fmt.Sprintf("https://p%d.example", i)})
		}
		e.Watch(subjectOf("p0"))
		e.Watch(s)
		after(time.Second) // the targets answer the operator once, so that it asks them again whom to believe
		n.set(func(n *network) { n.indirect = true })
		n.slowControls.Store(true)
		after(30 * interval)
		// The probes take one interval, the control probes another and, the last of them, one more.
		require.GreaterOrEqual(t, n.hung.Load(), int64(30/3*targets))
	})
}

func TestControlProbesOfTargetsThatHangLeaveWorkersForRounds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, e *Engine, n *crowded) {
		for i := range 400 { // there is a way to their targets through them alone
			s := subjectOf(fmt.Sprint("p", i))
			s.Targets = []probe.Target{{URL: fmt.Sprintf("https://dead%d.example", i)}}
			e.Watch(s)
		}
		after(10 * interval)
		require.Equal(t, int64(256/8), n.mostControls.Load())
		n.breakProxy("p42", probe.ReasonConnectRefused)
		after(2 * interval)
		require.Equal(t, Unhealthy, healthOf(e, "p42"))
	})
}

func TestTheProxiesBehindOneGatewayAreWatchedAtATime(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, e *Engine, n *crowded) {
		for i := range 200 {
			s := subjectOf(fmt.Sprint("p", i))
			s.Proxy.Host, s.Proxy.Port = "gateway", 10000+i
			e.Watch(s)
		}
		after(10 * interval)
		before := n.probed("gateway")
		after(10 * interval)
		require.GreaterOrEqual(t, n.probed("gateway")-before, 10*200, "each in each interval: one at a time takes 60 s for all")
		require.Equal(t, int64(8), n.mostAtHost.Load(), "but no more than that at a time")
		n.breakProxy("gateway", probe.ReasonReset)
		after(2 * interval)
		for i := range 200 {
			require.Equal(t, Unhealthy, healthOf(e, fmt.Sprint("p", i)))
		}
	})
}

func TestWhoWaitsForAHostIsNotForgottenWithTheOneBefore(t *testing.T) {
	c := newCore()
	c.hostMost, c.workers, c.gap = 1, 8, time.Second
	now := time.Unix(0, 0)
	for i, uid := range []string{"first", "second", "third"} {
		s := subjectOf(uid)
		s.Proxy.Host, s.Proxy.Port = "gateway", i
		c.watch(s, now)
	}
	now = now.Add(time.Minute)
	rounds := func() (jobs []*job) {
		for _, j := range c.start(now) {
			if j.control == nil {
				jobs = append(jobs, j)
			}
		}
		return jobs
	}
	under := rounds()
	require.Len(t, under, 1)
	c.result(under[0], round{outcomes: []probe.Outcome{gotThrough()}}, now) // the turn is the second's
	c.forget("second", now)
	under = rounds()
	require.Len(t, under, 1, "and then the third's")
	require.Equal(t, "third", under[0].subject.UID)
}

func TestTheDeadDoNotDelayTheLiving(t *testing.T) {
	h := &hanging{network: newNetwork(), hangs: func(host string) bool { return strings.HasPrefix(host, "dead") }}
	e, _ := running(t, h, func(o *Options) { o.Workers = 8 })
	for i := range 40 {
		s := quick(fmt.Sprint("dead", i))
		s.Timeout = time.Minute
		e.Watch(s)
	}
	for i := range 4 {
		s := quick(fmt.Sprint("p", i))
		s.Prior = Healthy
		e.Watch(s)
	}
	soon(t, func() bool { return h.probed("p0") > 5 && h.probed("p3") > 5 }, "a quarter of the workers is theirs")
}
