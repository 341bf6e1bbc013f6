// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

func TestAfterARestart(t *testing.T) {
	t.Run("a healthy fleet stays healthy and causes no news", func(t *testing.T) {
		w := newWorld()
		w.fleet(50, 2, prior(Healthy, probe.ReasonHealthy))
		require.Equal(t, 50, w.count(Healthy))
		w.run(t, 10*time.Minute)
		require.Empty(t, w.changed)
	})
	t.Run("a healthy fleet stays healthy while the target is down", func(t *testing.T) {
		w := newWorld()
		w.targetDown(true)
		w.fleet(50, 2, prior(Healthy, probe.ReasonHealthy))
		w.run(t, 10*time.Minute)
		require.Equal(t, 50, w.count(Healthy))
		require.Empty(t, w.changed)
	})
	t.Run("who has died meanwhile is found out", func(t *testing.T) {
		w := newWorld()
		w.fleet(10, 2, prior(Healthy, probe.ReasonHealthy))
		w.breakProxy("p3", probe.ReasonConnectRefused)
		w.run(t, 2*interval)
		require.Equal(t, []string{"p3 Unhealthy ConnectRefused"}, w.changed)
	})
	t.Run("who was unhealthy stays so until good rounds", func(t *testing.T) {
		w := newWorld()
		w.fleet(1, 1, prior(Unhealthy, probe.ReasonTimeout))
		require.Equal(t, Unhealthy, w.health("p0"))
		w.run(t, 2*interval)
		require.Equal(t, []string{"p0 Healthy Healthy"}, w.changed)
	})
	t.Run("an outage that was under way still holds", func(t *testing.T) {
		w := newWorld()
		for i := range 10 {
			w.breakProxy(fmt.Sprint("p", i), probe.ReasonConnectRefused)
		}
		w.fleet(10, 1, prior(Unhealthy, probe.ReasonConnectRefused))
		require.False(t, w.engine.Held("pool0"))
		w.run(t, guardSettles)
		require.True(t, w.engine.Held("pool0"))
		w.run(t, guardWindow)
		require.Equal(t, []string{"pool0 true", "pool0 false"}, w.held)
	})
	t.Run("an open proxy stays one until it is known to be closed", func(t *testing.T) {
		w := newWorld()
		w.open["p0"] = probe.Outcome{Fault: probe.FaultUnclear, Reason: probe.ReasonTimeout}
		w.fleet(1, 1, prior(Unhealthy, probe.ReasonOpenProxy), func(s *Subject) { s.CheckOpen = true })
		w.run(t, 10*time.Minute)
		require.Equal(t, Unhealthy, w.health("p0"))
		w.set(func(n *network) { delete(n.open, "p0") })
		w.run(t, 2*time.Minute)
		require.Equal(t, Healthy, w.health("p0"))
	})
	t.Run("what status said is learned late, where the first view of it was older", func(t *testing.T) {
		for _, said := range []Health{Healthy, Unhealthy} {
			w := newWorld()
			w.targetDown(true)
			w.fleet(1, 1)
			w.run(t, interval)
			require.Equal(t, Unknown, w.health("p0"), "nobody can tell while the target is down")
			w.fleet(1, 1, prior(said, probe.ReasonHealthy))
			require.Equal(t, said, w.health("p0"))
			w.fleet(1, 1, prior(Unknown, ""))
			w.run(t, 10*time.Minute)
			require.Equal(t, said, w.health("p0"))
		}
	})
	t.Run("a newer view counts for more than an older one, until rounds decide", func(t *testing.T) {
		w := newWorld()
		w.targetDown(true)
		w.fleet(1, 1, prior(Unhealthy, probe.ReasonTimeout))
		w.run(t, interval)
		w.fleet(1, 1, prior(Healthy, probe.ReasonHealthy))
		require.Equal(t, Healthy, w.health("p0"))
		w.targetDown(false)
		w.breakProxy("p0", probe.ReasonConnectRefused)
		w.run(t, 3*interval)
		w.fleet(1, 1, prior(Healthy, probe.ReasonHealthy))
		require.Equal(t, Unhealthy, w.health("p0"), "this process has seen so itself")
	})
	t.Run("it isn't learned of another machine, nor against what rounds have shown", func(t *testing.T) {
		w := newWorld()
		w.fleet(1, 1)
		w.fleet(1, 1, prior(Healthy, probe.ReasonHealthy), func(s *Subject) { s.Proxy.Host = "elsewhere" })
		require.Equal(t, Unknown, w.health("p0"))
		w.run(t, interval)
		require.Equal(t, Healthy, w.health("p0"))
		w.fleet(1, 1, prior(Unhealthy, probe.ReasonTimeout), func(s *Subject) { s.Proxy.Host = "elsewhere" })
		require.Equal(t, Healthy, w.health("p0"))
	})
	t.Run("an outage that is learned late holds too", func(t *testing.T) {
		w := newWorld()
		w.targetDown(true)
		w.fleet(10, 1)
		w.run(t, guardSettles)
		require.False(t, w.engine.Held("pool0"))
		w.fleet(10, 1, prior(Unhealthy, probe.ReasonTimeout))
		w.run(t, guardSettles)
		require.True(t, w.engine.Held("pool0"))
	})
	t.Run("what status said counts only once", func(t *testing.T) {
		w := newWorld()
		w.fleet(1, 1, prior(Healthy, probe.ReasonHealthy))
		w.fleet(1, 1, prior(Healthy, probe.ReasonHealthy), func(s *Subject) { s.Incarnation = 2 })
		require.Equal(t, Unknown, w.health("p0"))
	})
}

func prior(h Health, r probe.Reason) func(*Subject) {
	return func(s *Subject) { s.Prior, s.PriorReason, s.PriorExitIP = h, r, "198.51.100.1" }
}
