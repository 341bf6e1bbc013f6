// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

func TestANewProxyBecomesHealthyAndStaysQuiet(t *testing.T) {
	w := newWorld()
	w.engine.Watch(subjectOf("p0"))
	require.Equal(t, Unknown, w.health("p0"))
	w.run(t, interval/hurried)
	v, ok := w.engine.Verdict("p0")
	require.True(t, ok)
	require.Equal(t, Verdict{
		UID: "p0", Incarnation: 1, Health: Healthy, Reason: probe.ReasonHealthy, ExitIP: "198.51.100.1", Since: v.Since,
	}, v)
	w.run(t, time.Hour)
	require.Equal(t, []string{"p0 Healthy Healthy"}, w.changed, "no probe is news")
	require.InDelta(t, 3600/20*1.05, w.probed("p0"), 5, "at its interval, a little early")
	require.InDelta(t, 60, w.controls[judgeURL], 2)

	w.engine.Forget("p0")
	_, ok = w.engine.Verdict("p0")
	require.False(t, ok)
	_, ok = w.engine.NextDue()
	require.False(t, ok, "nothing is left of it")
	require.Empty(t, w.engine.core.hosts)
	require.Empty(t, w.engine.core.pools)
	require.Len(t, w.engine.core.witnesses, 1, "what is known of the target is kept a while")
	w.clock.Step(keepsIdle)
	w.engine.Watch(subjectOf("p1"))
	w.engine.Forget("p1")
	w.clock.Step(keepsIdle)
	other := subjectOf("p2")
	other.Targets = []probe.Target{{URL: "https://b.example"}}
	w.engine.Watch(other)
	require.Len(t, w.engine.core.witnesses, 1, "and not for ever")
}

func TestAVerdictFlipsWithinTwoIntervals(t *testing.T) {
	for _, r := range []probe.Reason{probe.ReasonConnectRefused, probe.ReasonConnectTimeout, probe.ReasonProxyError, probe.ReasonTimeout, probe.ReasonAuthFailed} {
		t.Run(string(r), func(t *testing.T) {
			w := newWorld()
			w.fleet(3, 1)
			w.run(t, time.Hour)
			w.breakProxy("p1", r)
			w.run(t, 2*interval)
			require.Equal(t, Unhealthy, w.health("p1"))
			w.mendProxy("p1")
			w.run(t, 2*interval)
			require.Equal(t, Healthy, w.health("p1"))
			require.Equal(t, []string{"p1 Unhealthy " + string(r), "p1 Healthy Healthy"}, w.changed[3:])
		})
	}
}

func TestWatchingTheSameAgainChangesNothing(t *testing.T) {
	w := newWorld()
	s := subjectOf("p0")
	s.Targets[0].ExpectStatus = []int{200}
	w.engine.Watch(s)
	w.run(t, time.Second)
	require.Equal(t, Healthy, w.health("p0"))
	before, _ := w.engine.NextDue()
	epoch := w.engine.core.epochs
	again := subjectOf("p0")
	again.Targets[0].ExpectStatus = []int{200}
	again.Prior = Unhealthy
	w.engine.Watch(again)
	after, _ := w.engine.NextDue()
	require.Equal(t, before, after)
	require.Equal(t, epoch, w.engine.core.epochs)
}

func TestWhatBeginsAnew(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*Subject)
		want   Health
	}{
		"another incarnation": {why: "it is another machine", change: func(s *Subject) { s.Incarnation = 2 }, want: Unknown},
		"another host":        {why: "it is another machine", change: func(s *Subject) { s.Proxy.Host = "elsewhere" }, want: Unknown},
		"another port":        {why: "it is another program", change: func(s *Subject) { s.Proxy.Port = 1080 }, want: Unknown},
		"another protocol":    {why: "nobody has spoken it yet", change: func(s *Subject) { s.Proxy.Protocol = probe.SOCKS5 }, want: Unknown},
		"another password":    {why: "the same machine; the next round tells", change: func(s *Subject) { s.Proxy.Password = "x" }, want: Healthy},
		"another target":      {why: "the same machine", change: func(s *Subject) { s.Targets = []probe.Target{{URL: "https://other.example"}} }, want: Healthy},
		"another pool":        {why: "the same machine", change: func(s *Subject) { s.Pool = "other" }, want: Healthy},
		"another interval":    {why: "the same machine", change: func(s *Subject) { s.Interval = time.Minute }, want: Healthy},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.engine.Watch(subjectOf("p0"))
			w.run(t, time.Minute)
			told := len(w.changed)
			s := subjectOf("p0")
			c.change(&s)
			w.engine.Watch(s)
			require.Equal(t, c.want, w.health("p0"), c.why)
			require.Len(t, w.changed, told, "who watches knows")
			require.Len(t, w.engine.core.queue.entries, 2, "one subject and one target, as before")
			w.run(t, interval)
			require.Equal(t, Healthy, w.health("p0"))
		})
	}
}

// A result that was under way when the machine was replaced must not condemn the new one (scrapoxy/scrapoxy#47).
func TestStaleResultsAreDropped(t *testing.T) {
	strict := func() Subject {
		s := subjectOf("p0")
		s.FailureThreshold = 1
		return s
	}
	cases := map[string]struct {
		why    string
		change func(e *Engine)
		known  bool
	}{
		"of an earlier incarnation": {why: "the new machine has not been asked", known: true, change: func(e *Engine) {
			s := strict()
			s.Incarnation = 2
			e.Watch(s)
		}},
		"of an earlier endpoint": {why: "the new one has not been asked", known: true, change: func(e *Engine) {
			s := strict()
			s.Proxy.Port = 1
			e.Watch(s)
		}},
		"of an earlier password": {why: "a 407 for the old one says nothing", known: true, change: func(e *Engine) {
			s := strict()
			s.Proxy.Password = "new"
			e.Watch(s)
		}},
		"of who was forgotten":             {why: "nobody asks any more", change: func(e *Engine) { e.Forget("p0") }},
		"of who was forgotten and is back": {why: "it begins anew", known: true, change: func(e *Engine) { e.Forget("p0"); e.Watch(strict()) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.engine.Watch(strict())
			w.breakProxy("p0", probe.ReasonConnectRefused)
			w.during = func(context.Context, probe.Proxy) {
				w.during = nil
				c.change(w.engine)
			}
			w.engine.Step(t.Context())
			require.Equal(t, 1, w.probed("p0"))
			require.Empty(t, w.changed, c.why)
			v, known := w.engine.Verdict("p0")
			require.Equal(t, c.known, known)
			if c.known {
				require.Equal(t, Unknown, v.Health, c.why)
			}
			w.mendProxy("p0")
			w.run(t, interval)
			if c.known {
				require.Equal(t, Healthy, w.health("p0"), "and it is asked again")
			} else {
				require.Empty(t, w.engine.core.hosts, "nothing is left of it")
			}
		})
	}
}

func TestAnOpenProxyIsNeverReady(t *testing.T) {
	checked := func(s *Subject) { s.CheckOpen = true }
	openProxy := fault(probe.ReasonOpenProxy)

	w := newWorld()
	w.open["p0"] = openProxy
	w.fleet(2, 1, checked)
	w.run(t, 5*time.Minute)
	require.ElementsMatch(t, []string{"p0 Unhealthy OpenProxy", "p1 Healthy Healthy"}, w.changed)

	w.set(func(n *network) { delete(n.open, "p0") })
	w.run(t, 3*interval)
	require.Equal(t, Healthy, w.health("p0"), "it has been closed")

	w.opens = 0
	w.run(t, time.Hour)
	require.InDelta(t, 2*6, w.opens, 2, "looked at rarely")

	w.set(func(n *network) { n.open["p1"] = openProxy })
	w.run(t, 10*time.Minute+interval)
	require.Equal(t, Unhealthy, w.health("p1"), "opened later")

	w = newWorld()
	w.open["p0"] = openProxy
	w.fleet(1, 1)
	w.run(t, time.Minute)
	require.Equal(t, Healthy, w.health("p0"), "no credentials, nothing to look for")
	require.Zero(t, w.opens)
}

func TestALookForAnOpenProxyThatComesToNothing(t *testing.T) {
	w := newWorld()
	w.open["p0"] = probe.Outcome{Fault: probe.FaultUnclear, Reason: probe.ReasonTimeout}
	w.fleet(1, 1, func(s *Subject) { s.CheckOpen = true })
	w.run(t, 10*time.Minute)
	require.Equal(t, Healthy, w.health("p0"))
	require.InDelta(t, 10, w.opens, 3, "repeated sooner, but not with each round")
}

func TestAPoolThatBreaksIsHeldAndToldOnce(t *testing.T) {
	w := newWorld()
	w.fleet(20, 2)
	w.run(t, 10*time.Minute)
	for i := range 5 {
		w.breakProxy(fmt.Sprint("p", 2*i), probe.ReasonConnectRefused)
	}
	w.run(t, 2*interval)
	require.Equal(t, 5, w.count(Unhealthy))
	require.True(t, w.engine.Held("pool0"))
	require.False(t, w.engine.Held("pool1"))
	w.run(t, guardWindow)
	require.False(t, w.engine.Held("pool0"))
	require.Equal(t, []string{"pool0 true", "pool0 false"}, w.held)
}

func TestAFlappingProxyDoesNotLoop(t *testing.T) {
	w := newWorld()
	w.fleet(1, 1)
	w.run(t, time.Minute)
	for range 60 {
		w.breakProxy("p0", probe.ReasonReset)
		w.run(t, time.Minute)
		w.mendProxy("p0")
		w.run(t, time.Minute)
	}
	require.Less(t, len(w.changed), 45, "of 120 that there were without the penalty")
	w.run(t, 30*time.Minute)
	require.Equal(t, Healthy, w.health("p0"), "and all is forgiven")
}

func TestHostsArePaced(t *testing.T) {
	w := newWorld(func(o *Options) { o.HostGap = 100 * time.Millisecond })
	var times []time.Time
	w.during = func(context.Context, probe.Proxy) { times = append(times, w.clock.Now()) }
	w.fleet(50, 1, func(s *Subject) { s.Proxy.Host = "gateway"; s.Proxy.Port = len(times) })
	w.run(t, time.Minute)
	require.Greater(t, len(times), 100)
	for i := 1; i < len(times); i++ {
		require.GreaterOrEqual(t, times[i].Sub(times[i-1]), 100*time.Millisecond)
	}
	require.Equal(t, 50, w.count(Healthy), "all have had their turn")
}

func TestWhoIsForgottenWhileItWaitsForItsHostIsNotProbed(t *testing.T) {
	w := newWorld()
	w.fleet(2, 1, func(s *Subject) { s.Proxy.Host = "gateway" })
	w.clock.Step(interval)
	w.during = func(context.Context, probe.Proxy) {
		w.during = nil
		w.engine.Forget("p0")
		w.engine.Forget("p1")
	}
	w.engine.Step(t.Context())
	require.Equal(t, 1, w.probed("gateway"), "the other waits")
	w.run(t, interval)
	require.Equal(t, 1, w.probed("gateway"))
}

func TestAFleetThatComesAtOnceIsSpread(t *testing.T) {
	cases := map[string]struct {
		why  string
		tune func(*Subject)
	}{
		"new":             {why: "each takes a place of its own when it turns healthy", tune: func(*Subject) {}},
		"after a restart": {why: "from the first round on", tune: prior(Healthy, probe.ReasonHealthy)},
		"configured anew": {why: "each keeps its place", tune: func(s *Subject) { s.Proxy.Password = "new" }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if name == "configured anew" {
				w.fleet(400, 1)
				w.run(t, 5*interval)
			}
			perSecond := map[int64]int{}
			w.during = func(context.Context, probe.Proxy) { perSecond[w.clock.Now().Unix()]++ }
			w.fleet(400, 1, c.tune)
			w.run(t, 5*interval)
			for _, n := range perSecond {
				require.LessOrEqual(t, n, 201, c.why)
			}
			clear(perSecond)
			w.run(t, 4*time.Minute)
			for _, n := range perSecond {
				require.LessOrEqual(t, float64(n), 2.5*400/interval.Seconds(), c.why)
			}
		})
	}
}

func TestASlowRoundIsNotMadeUpFor(t *testing.T) {
	w := newWorld()
	w.fleet(1, 1)
	w.run(t, 10*time.Minute)
	w.during = func(context.Context, probe.Proxy) {
		w.during = nil
		w.clock.Step(10 * interval)
	}
	before := w.probed("p0")
	w.run(t, interval)
	w.run(t, 2*interval)
	require.InDelta(t, 4, w.probed("p0")-before, 1, "what was missed is missed")
}

func TestZeroValuesWork(t *testing.T) {
	w := newWorld()
	s := Subject{UID: "p0", Proxy: probe.Proxy{Host: "p0"}, Targets: []probe.Target{{URL: judgeURL}}, Quorum: 3}
	w.engine.Watch(s)
	w.run(t, time.Minute)
	require.Equal(t, Healthy, w.health("p0"), "a quorum of more targets than there are is all of them")
	require.InDelta(t, 3, w.probed("p0"), 1)
	w.breakProxy("p0", probe.ReasonReset)
	w.run(t, 31*time.Second)
	require.Equal(t, Unhealthy, w.health("p0"), "one round is the least threshold")
	w.engine.Watch(s)
	require.Equal(t, Unhealthy, w.health("p0"), "the same again")
	s = s.withDefaults()
	require.Equal(t, []int{1, 1}, []int{s.FailureThreshold, s.SuccessThreshold})
}

func TestNewsAreToldInOrderOneAtATime(t *testing.T) {
	var seen []string
	var w *world
	w = newWorld(func(o *Options) {
		o.Changed = func(uid string) {
			seen = append(seen, uid)
			if uid == "first" {
				w.engine.core.news = append(w.engine.core.news, news{pool: "second", held: true}, news{uid: "third"})
				w.engine.tell() // as any method does that is called from here
			}
			seen = append(seen, uid+" done")
		}
	})
	w.engine.core.news = []news{{uid: "first"}}
	w.engine.tell()
	require.Equal(t, []string{"first", "first done", "third", "third done"}, seen)
	require.Equal(t, []string{"second true"}, w.held)
}

func TestEqualWorldsTakeEqualSteps(t *testing.T) {
	trace := func() []string {
		w := newWorld()
		var out []string
		w.during = func(_ context.Context, p probe.Proxy) {
			out = append(out, fmt.Sprint(w.clock.Now().UnixNano(), p.Host))
		}
		w.fleet(50, 3)
		w.run(t, 2*time.Minute)
		for i := range 30 {
			w.breakProxy(fmt.Sprint("p", i), probe.ReasonReset)
		}
		w.run(t, 10*time.Minute)
		return append(append(out, w.changed...), w.held...)
	}
	require.Equal(t, trace(), trace())
}

func TestASubjectWithoutTargetsStaysUnknown(t *testing.T) {
	w := newWorld()
	s := subjectOf("p0")
	s.Targets = nil
	w.engine.Watch(s)
	w.run(t, time.Hour)
	require.Equal(t, Unknown, w.health("p0"))
	require.Empty(t, w.changed)
}

func TestTheLogTellsWhichProxyAVerdictIsOf(t *testing.T) {
	var lines []string
	w := newWorld(func(o *Options) {
		o.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		o.Named = func(uid string) []any { return []any{"proxy", "shop/" + uid} }
	})
	w.fleet(1, 1)
	w.run(t, time.Minute)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `"proxy"="shop/p0"`)
	require.Contains(t, lines[0], `"uid"="p0"`)
}
