// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// caller comes back when it is told to, until its call goes.
type caller struct {
	at     time.Time // when it comes next
	call   func() error
	late   time.Duration // that it comes late each time
	asked  int
	served time.Time
}

// serve lets the callers come in the order of their times until all were served, and returns the longest time it took.
func serve(b *bench, callers []*caller) time.Duration {
	b.t.Helper()
	begin := b.clock.Now()
	sooner := func(a, b *caller) int { return a.at.Compare(b.at) }
	waiting := slices.SortedStableFunc(slices.Values(callers), sooner)
	for len(waiting) > 0 {
		next := waiting[0]
		waiting = waiting[1:]
		if next.at.After(b.clock.Now()) {
			b.clock.SetTime(next.at)
		}
		next.asked++
		require.Less(b.t, next.asked, 100, "it isn't served")
		var e *providers.Error
		if !errors.As(next.call(), &e) || !e.Held {
			next.served = b.clock.Now()
			continue
		}
		require.Equal(b.t, providers.CodeRateLimited, e.Code)
		require.Positive(b.t, e.RetryAfter)
		next.at = b.clock.Now().Add(e.RetryAfter + next.late)
		after, _ := slices.BinarySearchFunc(waiting, next.at.Add(1), func(c *caller, at time.Time) int { return c.at.Compare(at) })
		waiting = slices.Insert(waiting, after, next)
	}
	return slices.MaxFunc(callers, func(a, b *caller) int { return cmp.Compare(a.served.Sub(begin), b.served.Sub(begin)) }).served.Sub(begin)
}

// crowd is n Proxies that want a machine at one time.
func crowd(b *bench, n int, at time.Time, late func(n int) time.Duration) []*caller {
	var out []*caller
	for i := range n {
		c := &caller{at: at, call: func() error { return b.create(i) }}
		if late != nil {
			c.late = late(i)
		}
		out = append(out, c)
	}
	return out
}

func TestACrowdIsServedAtTheRate(t *testing.T) {
	cases := map[string]struct {
		why    string
		late   func(n int) time.Duration
		within time.Duration
		asks   int
	}{
		"all come when they are told to": {"each is told its turn once", nil, 48 * time.Second, 2},
		"all come a little late":         {"queues take their time", func(int) time.Duration { return 300 * time.Millisecond }, 50 * time.Second, 2},
		"some come much later":           {"who is late holds up nobody", func(n int) time.Duration { return time.Duration(n%7) * time.Second }, 60 * time.Second, 7},
		"some lose their place":          {"nobody is forgotten", func(n int) time.Duration { return time.Duration(n%2) * 15 * time.Second }, 80 * time.Second, 6},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 20, Burst: 40}})
			callers := crowd(b, 1000, noon, c.late)
			require.LessOrEqual(t, serve(b, callers), c.within, c.why)
			for _, each := range callers {
				require.LessOrEqual(t, each.asked, c.asks, c.why)
			}
			served := map[int64]int{}
			for _, each := range callers {
				served[each.served.Unix()]++
			}
			for second, n := range served {
				require.LessOrEqual(t, n, 40+20, "the bucket holds in second %d", second)
			}
			require.Equal(t, 1000, b.cloud.calls["create"])
			require.Zero(t, b.State().Waiting["changes"])
		})
	}
}

func TestWhoCameFirstGoesFirst(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 20, Burst: 1}})
	callers := crowd(b, 100, noon, nil)
	serve(b, callers)
	require.True(t, slices.IsSortedFunc(callers, func(a, b *caller) int { return a.served.Compare(b.served) }))
}

func TestACrowdOfCreatesHoldsUpNothingElse(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 20, Burst: 40}})
	callers := crowd(b, 1000, noon, nil)
	var deletes []*caller
	for i := range 100 {
		c := &caller{at: noon.Add(10 * time.Second), call: func() error { return b.delete(i) }}
		deletes, callers = append(deletes, c), append(callers, c)
	}
	reading := &caller{at: noon.Add(20 * time.Second), call: func() error { return b.get(1) }}
	require.LessOrEqual(t, serve(b, append(callers, reading)), 54*time.Second)
	for n, c := range deletes {
		require.LessOrEqual(t, c.served.Sub(noon), 10*time.Second+time.Duration(n+1)*50*time.Millisecond, "delete %d", n)
	}
	require.Equal(t, noon.Add(20*time.Second), reading.served, "reads have a budget of their own")
}

func TestTheLine(t *testing.T) {
	const ms = time.Millisecond
	limited := func(b *bench, err error, wait time.Duration) {
		b.t.Helper()
		b.held(err, providers.Throttled, providers.CodeRateLimited, wait)
	}
	cases := map[string]func(*bench){ // 10 calls a second, the bucket of 5 is empty
		"a place is told once for all": func(b *bench) {
			limited(b, b.create(1), 100*ms)
			limited(b, b.create(2), 200*ms)
			limited(b, b.create(1), 100*ms)
			require.Equal(b.t, 2, b.State().Waiting["changes"])
		},
		"who comes early waits for the rest": func(b *bench) {
			limited(b, b.create(1), 100*ms)
			b.pass(60 * ms)
			limited(b, b.create(1), 40*ms)
			b.pass(40 * ms)
			b.goes(b.create(1))
		},
		"nobody takes the token of one who stands before": func(b *bench) {
			limited(b, b.create(1), 100*ms)
			b.pass(100 * ms)
			limited(b, b.create(2), 100*ms)
			b.goes(b.create(1))
			b.pass(100 * ms)
			b.goes(b.create(2))
		},
		"one who is late for its turn holds up nobody": func(b *bench) {
			limited(b, b.create(1), 100*ms)
			limited(b, b.create(2), 200*ms)
			b.pass(200 * ms)
			b.goes(b.create(2))
			b.goes(b.create(1))
			limited(b, b.create(3), 100*ms)
		},
		"a delete stands before creates": func(b *bench) {
			limited(b, b.create(1), 100*ms)
			limited(b, b.create(2), 200*ms)
			limited(b, b.delete(1), 100*ms)
			limited(b, b.delete(2), 200*ms)
			limited(b, b.create(1), 300*ms)
			b.pass(100 * ms)
			limited(b, b.create(1), 200*ms)
			b.goes(b.delete(1))
		},
		"one who is gone loses its place": func(b *bench) {
			for n := range 4 {
				limited(b, b.delete(n), time.Duration(n+1)*100*ms)
			}
			b.pass(400*ms + 10*time.Second + ms)
			require.Zero(b.t, b.State().Waiting["changes"])
		},
		"those who are gone keep no tokens from the others": func(b *bench) {
			for n := range 100 {
				limited(b, b.delete(n), time.Duration(n+1)*100*ms)
			}
			b.pass(500 * ms)
			b.goes(b.create(1)) // the bucket is full, and would lose the next token
			limited(b, b.create(2), 9700*ms)
			b.pass(100 * ms)
			b.goes(b.create(2))
		},
		"a bucket isn't fuller than full": func(b *bench) {
			b.pass(time.Hour)
			for n := range 5 {
				b.goes(b.create(n))
			}
			limited(b, b.create(6), 100*ms)
		},
		"a list stands before gets": func(b *bench) {
			for n := range 5 {
				b.goes(b.get(n))
			}
			limited(b, b.get(1), 100*ms)
			limited(b, b.look(), 100*ms)
			limited(b, b.get(1), 200*ms)
			require.Equal(b.t, 2, b.State().Waiting["reads"])
		},
		"pages and polls are paid by the next": func(b *bench) {
			b.cloud.with = func(ctx context.Context) {
				for range 7 {
					providers.CountCall(ctx)
				}
			}
			b.goes(b.look()) // of 8 requests, with 5 tokens
			limited(b, b.get(1), 400*ms)
			limited(b, b.get(2), 500*ms)
		},
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 10, Burst: 5}})
			for n := range 5 {
				b.goes(b.delete(1000 + n))
			}
			check(b)
		})
	}
	t.Run("a request that no guard sees costs nothing", func(t *testing.T) {
		require.NotPanics(t, func() { providers.CountCall(t.Context()) })
	})
}

func TestDefaultLimits(t *testing.T) {
	cases := map[string]struct {
		limits providers.Limits
		burst  int
		wait   time.Duration
	}{
		"none given":              {providers.Limits{}, 40, 50 * time.Millisecond},
		"a rate alone":            {providers.Limits{CallsPerSecond: 5}, 10, 200 * time.Millisecond},
		"a rate below one":        {providers.Limits{CallsPerSecond: 0.25}, 1, 4 * time.Second},
		"a burst alone":           {providers.Limits{Burst: 3}, 3, 50 * time.Millisecond},
		"both":                    {providers.Limits{CallsPerSecond: 2, Burst: 7}, 7, 500 * time.Millisecond},
		"a rate that isn't whole": {providers.Limits{CallsPerSecond: 3, Burst: 1}, 1, 334 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, providers.GuardOptions{Limits: c.limits})
			for n := range c.burst {
				b.goes(b.create(n))
			}
			b.held(b.create(1000), providers.Throttled, providers.CodeRateLimited, c.wait)
			b.pass(c.wait)
			b.goes(b.create(1000))
		})
	}
}

// BenchmarkGuards is one Admit and one Create with 10,000 others in the line.
func BenchmarkGuards(b *testing.B) {
	w := newBench(b, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 10, Burst: 1}})
	requests := make([]providers.CreateRequest, 10_000)
	for n := range requests {
		requests[n] = request(n, "")
	}
	refill := func(n int) { _ = w.Admit(requests[n%len(requests)]) }
	for n := range requests {
		refill(n)
	}
	n := 0
	for b.Loop() {
		w.pass(100 * time.Millisecond)
		if err := w.Admit(requests[n%len(requests)]); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Create(b.Context(), requests[n%len(requests)]); err != nil {
			b.Fatal(err)
		}
		refill(n)
		n++
	}
	b.ReportMetric(float64(w.State().Waiting["changes"]), "waiting")
}
