// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

func TestATargetOutageCondemnsNobody(t *testing.T) {
	cases := map[string]struct {
		why      string
		n, pools int
		indirect bool
	}{
		"seen by the control probe":          {why: "the target fails without a proxy too", n: 50, pools: 1},
		"seen by the control probe of one":   {why: "there is nobody else to ask", n: 1, pools: 1},
		"seen by proxies of several pools":   {why: "there is no direct way, but no two pools break at once", n: 50, pools: 3, indirect: true},
		"seen by a few proxies of two pools": {why: "even four are enough", n: 4, pools: 2, indirect: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.indirect = c.indirect
			w.fleet(c.n, c.pools)
			w.run(t, 10*time.Minute)
			require.Equal(t, c.n, w.count(Healthy))
			told := len(w.changed)
			w.targetDown(true)
			w.run(t, 30*time.Minute)
			require.Equal(t, c.n, w.count(Healthy), c.why)
			require.Len(t, w.changed, told, c.why)
			require.Empty(t, w.held)
			w.targetDown(false)
			w.run(t, time.Minute)
			require.Len(t, w.changed, told)
		})
	}
}

// TestATargetOutageCondemnsNobodyWhoseMachineIsNew: its Proxy is the only one of that target, and isn't watched while it
// has no machine.
func TestATargetOutageCondemnsNobodyWhoseMachineIsNew(t *testing.T) {
	w := newWorld()
	w.fleet(1, 1)
	w.run(t, 10*time.Minute)
	w.engine.Forget("p0")
	w.targetDown(true)
	w.run(t, time.Minute)
	w.fleet(1, 1, func(s *Subject) { s.Incarnation = 2 })
	w.run(t, 30*time.Minute)
	require.Equal(t, Unknown, w.health("p0"))
	w.targetDown(false)
	w.run(t, time.Minute)
	require.Equal(t, Healthy, w.health("p0"))
}

// TestATargetThatWasDownFirstCondemnsNobody: its first control probe failed, and was then taken for no control at all; in the
// next outage healthy proxies were replaced.
func TestATargetThatWasDownFirstCondemnsNobody(t *testing.T) {
	w := newWorld()
	w.targetDown(true)
	w.fleet(1, 1)
	w.run(t, 3*time.Minute)
	require.Equal(t, Unknown, w.health("p0"), "nobody has seen the target yet")
	w.targetDown(false)
	w.run(t, 2*interval)
	require.Equal(t, Healthy, w.health("p0"))
	w.targetDown(true)
	w.run(t, 30*time.Minute)
	require.Equal(t, Healthy, w.health("p0"), "it answers nobody else either")
}

// TestAProxyThatWasIllWhenItsTargetWentDownIsDoubted: it was replaced for what may have been over for long.
func TestAProxyThatWasIllWhenItsTargetWentDownIsDoubted(t *testing.T) {
	doubted := func(w *world) bool {
		v, _ := w.engine.Verdict("p0")
		return v.Doubted
	}
	w := newWorld()
	w.fleet(1, 1)
	w.run(t, 10*time.Minute)
	require.False(t, doubted(w), "it works")
	host := w.engine.core.subjects["p0"].Proxy.Host
	w.breakProxy(host, probe.ReasonTimeout)
	w.run(t, 3*time.Minute)
	require.Equal(t, Unhealthy, w.health("p0"))
	require.False(t, doubted(w), "each round blames it")
	w.targetDown(true)
	w.run(t, 3*time.Minute)
	require.Equal(t, Unhealthy, w.health("p0"))
	require.True(t, doubted(w), "no round can")
	w.targetDown(false)
	w.run(t, time.Minute)
	require.False(t, doubted(w), "they blame it again")
	w.breakProxy(host, probe.ReasonConnectRefused)
	w.targetDown(true)
	w.run(t, 3*time.Minute)
	require.False(t, doubted(w), "it refuses by itself, whatever its target does")
}

func TestARestartInATargetOutageCondemnsNobody(t *testing.T) {
	w := newWorld()
	w.targetDown(true)
	w.fleet(3, 1, func(s *Subject) { s.Prior = Healthy })
	w.run(t, 30*time.Minute)
	require.Equal(t, 3, w.count(Healthy))
}

func TestADeadProxyIsFoundWithoutAControlProbe(t *testing.T) {
	w := newWorld()
	w.indirect = true
	w.fleet(20, 2)
	w.run(t, 10*time.Minute)
	told := len(w.changed)
	w.breakProxy("p4", probe.ReasonTimeout)
	w.run(t, 3*interval)
	require.Equal(t, []string{"p4 Unhealthy Timeout"}, w.changed[told:])
}

func TestTargetOutageDoesNotHideADeadProxy(t *testing.T) {
	w := newWorld()
	w.fleet(20, 2)
	w.run(t, 10*time.Minute)
	told := len(w.changed)
	w.targetDown(true)
	w.run(t, time.Minute)
	w.breakProxy("p4", probe.ReasonConnectTimeout)
	w.run(t, 4*interval)
	require.Equal(t, []string{"p4 Unhealthy ConnectTimeout"}, w.changed[told:], "others are still reached")
}

func TestOneTargetOfThreeDown(t *testing.T) {
	w := newWorld()
	three := func(s *Subject) {
		s.Targets = []probe.Target{{URL: judgeURL, Judge: true}, {URL: "https://b.example"}, {URL: "https://c.example"}}
	}
	w.fleet(4, 1, three)
	w.run(t, time.Minute)
	require.Zero(t, w.probed("p0")%2, "two of three are enough, the third isn't asked")
	told := len(w.changed)
	w.targetDown(true)
	w.run(t, 10*time.Minute)
	require.Len(t, w.changed, told)
	w.breakProxy("p1", probe.ReasonReset)
	w.run(t, 2*interval)
	require.Equal(t, Unhealthy, w.health("p1"), "the others tell")
}
