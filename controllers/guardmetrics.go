// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/proxy-operator/proxy-operator/providers"
)

// guardCollector reads the guards when it is asked to: a gauge kept by hand would miss what time alone changes.
type guardCollector struct {
	guards map[string]*providers.Guarded

	gate, circuit, inFlight, waiting, refusals, instances, limit *prometheus.Desc
}

// NewGuardCollector returns the collector of the guards' metrics, by account. The map isn't changed any more. What isn't
// known has no sample: a gate that was never closed, a number of instances before the first list, a limit that isn't set.
func NewGuardCollector(guards map[string]*providers.Guarded) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("proxy_operator_"+name, help, append([]string{"provider"}, labels...), nil)
	}
	return guardCollector{
		guards:    guards,
		gate:      desc("guard_gate_closed", "1 while creates in a zone are held back for quota or capacity, by account, zone and gate.", "zone", "gate"),
		circuit:   desc("guard_circuit_open", "1 while every call is held back because the account's API fails, by account."),
		inFlight:  desc("guard_calls_in_flight", "Calls under way, by account."),
		waiting:   desc("guard_calls_waiting", "Calls that were told to come back in their turn, by account and family (reads, changes).", "family"),
		refusals:  desc("guard_refusals_total", "Calls that the guards held back, by account and code.", "code"),
		instances: desc("instances", "Instances of this installation by the newest list of the account."),
		limit:     desc("instances_limit", "The account's maxInstances."),
	}
}

// Describe implements prometheus.Collector.
func (c guardCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.gate, c.circuit, c.inFlight, c.waiting, c.refusals, c.instances, c.limit} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c guardCollector) Collect(ch chan<- prometheus.Metric) {
	for account, g := range c.guards {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{account}, labels...)...)
		}
		s := g.State()
		for _, gt := range s.Gates {
			gauge(c.gate, flag(gt.Closed), gt.Zone, gt.Gate)
		}
		gauge(c.circuit, flag(s.CircuitOpen))
		gauge(c.inFlight, float64(s.InFlight))
		for family, n := range s.Waiting {
			gauge(c.waiting, float64(n), family)
		}
		for code, n := range s.Refusals {
			ch <- prometheus.MustNewConstMetric(c.refusals, prometheus.CounterValue, float64(n), account, code)
		}
		if s.Counted {
			gauge(c.instances, float64(s.Instances))
		}
		if s.MaxInstances > 0 {
			gauge(c.limit, float64(s.MaxInstances))
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
