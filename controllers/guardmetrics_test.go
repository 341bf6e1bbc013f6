// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestGuardMetrics(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 8, 7, 12, 0, 0, 0, time.UTC))
	model := cloud.New(cloud.GCE(), clk, 1)
	guards := map[string]*providers.Guarded{}
	for account, l := range map[string]providers.Limits{"full": {Burst: 1, MaxInstances: 5}, "quiet": {}} {
		guards[account] = providers.NewGuarded(account, model.Account(account), providers.GuardOptions{Limits: l, Workers: 3, Clock: clk})
	}
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(NewGuardCollector(guards)))
	known := samples(t, reg)
	require.Equal(t, 5.0, known["instances_limit{full}"])
	for _, unknown := range []string{"instances{full}", "instances_limit{quiet}"} {
		require.NotContains(t, known, unknown, "what isn't known has no sample")
	}

	model.SetQuota(1)
	g, zone := guards["full"], cloud.GCE().Zones[0]
	sel := providers.Selector{Installation: "inst"}
	_, err := g.ListByTag(t.Context(), sel)
	require.NoError(t, err)
	for n, uid := range []string{"a", "b", "c"} { // made; no quota; held by the gate
		clk.Step(time.Second)
		_, err = g.Create(t.Context(), madeFor(uid, zone))
		require.Equal(t, n > 0, err != nil, "%v", err)
	}
	clk.Step(10 * time.Second)
	_, err = g.ListByTag(t.Context(), sel)
	require.NoError(t, err)
	_, err = g.ListByTag(t.Context(), sel)
	require.Error(t, err, "the bucket has one token")

	require.Equal(t, map[string]float64{
		"guard_calls_in_flight{full}": 0, "guard_calls_in_flight{quiet}": 0,
		"guard_calls_waiting{changes full}": 0, "guard_calls_waiting{changes quiet}": 0,
		"guard_calls_waiting{reads full}": 1, "guard_calls_waiting{reads quiet}": 0,
		"guard_circuit_open{full}": 0, "guard_circuit_open{quiet}": 0,
		"guard_gate_closed{Quota full " + zone + "}": 1,
		"guard_refusals_total{GateClosed full}":      1,
		"guard_refusals_total{RateLimited full}":     1,
		"instances{full}":                            1,
		"instances_limit{full}":                      5,
	}, samples(t, reg))

	model.SetDown(providers.Transient)
	for range 5 {
		clk.Step(time.Minute)
		_, err = g.ListByTag(t.Context(), sel)
		require.Error(t, err)
	}
	require.Equal(t, 1.0, samples(t, reg)["guard_circuit_open{full}"])
}

// samples are what a scrape shows: the value of each sample, by name without our prefix and the labels' values.
func samples(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "proxy_operator_")
		require.True(t, ours, f.GetName())
		for _, m := range f.GetMetric() {
			var labels []string // in the order of their names
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[fmt.Sprintf("%s{%s}", name, strings.Join(labels, " "))] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// madeFor is the request of a Proxy's first machine in the account "full".
func madeFor(uid, zone string) providers.CreateRequest {
	key := providers.Key{InstallationID: "inst", ProxyUID: uid, Incarnation: 1, Account: "full", Zone: zone}
	return providers.CreateRequest{Key: key, Name: key.Name(), Tags: providers.Tags{
		ManagedBy: providers.ManagedBy, Installation: "inst", OwnerUID: uid, Namespace: "ns", Name: uid, Incarnation: 1, SpecHash: "v1:x",
	}}
}
