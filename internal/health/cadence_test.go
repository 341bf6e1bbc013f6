// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

func TestPeriod(t *testing.T) {
	const interval = 20 * time.Second
	cases := map[string]struct {
		why     string
		s       standing
		stretch float64
		held    time.Duration
		want    time.Duration
	}{
		"a proxy that boots is asked often":               {why: "somebody waits for it", s: standing{health: Unknown}, want: 5 * time.Second},
		"a proxy that boots for ever isn't":               {why: "nobody does any more", s: standing{health: Unknown}, held: time.Hour, want: interval},
		"a healthy proxy is asked at its interval":        {why: "the rule", s: standing{health: Healthy}, held: 10 * time.Hour, want: interval},
		"a healthy proxy that begins to fail":             {why: "a verdict is near", s: standing{health: Healthy, bad: 1}, want: 5 * time.Second},
		"an unhealthy proxy that is down":                 {why: "it will be for long", s: standing{health: Unhealthy, bad: 5}, want: interval},
		"an unhealthy proxy that comes back":              {why: "a verdict is near", s: standing{health: Unhealthy, good: 1}, want: 5 * time.Second},
		"an open proxy that works":                        {why: "no verdict is near", s: standing{health: Unhealthy, good: 1, open: true}, want: interval},
		"a proxy behind a target that is down":            {why: "the sick aren't asked more often", s: standing{health: Healthy, bad: 2, last: finding{reason: probe.ReasonTargetError}}, want: interval},
		"a proxy that waits for what others say":          {why: "they will have said it soon", s: standing{health: Healthy, last: finding{doubt: true, reason: probe.ReasonTimeout}}, want: 5 * time.Second},
		"long healthy is asked less often":                {why: "half way to the stretch", s: standing{health: Healthy}, stretch: 2, held: 30 * time.Minute, want: 30 * time.Second},
		"very long healthy is asked as rarely as allowed": {why: "the stretch and no more", s: standing{health: Healthy}, stretch: 2, held: 30 * time.Hour, want: 40 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.s.since = start
			require.Equal(t, c.want, period(c.s, interval, c.stretch, start.Add(c.held)), c.why)
		})
	}
	require.Equal(t, time.Second, hurry(2*time.Second), "not faster than once a second")
	require.Equal(t, 500*time.Millisecond, hurry(500*time.Millisecond), "nor slower than the interval")
}

func TestSharesAreSpreadAndRepeatable(t *testing.T) {
	var tenths [10]int
	for i := range 1000 {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		x := share(7, uid, 0)
		require.Equal(t, x, share(7, uid, 0))
		require.NotEqual(t, x, share(8, uid, 0), "another seed, another order")
		require.NotEqual(t, x, share(7, uid, 1), "another round, another jitter")
		tenths[int(x*10)]++
	}
	for _, n := range tenths {
		require.InDelta(t, 100, n, 40)
	}
}

func TestJitterComesEarlyNeverLate(t *testing.T) {
	require.Equal(t, time.Second, jittered(time.Second, 0))
	require.Equal(t, 950*time.Millisecond, jittered(time.Second, 0.5))
}
