// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
)

// OrphanMetrics are the collector's.
type OrphanMetrics struct {
	orphans *prometheus.GaugeVec
	deleted *prometheus.CounterVec
	sweeps  *prometheus.CounterVec
}

// NewOrphanMetrics makes the metrics and registers them. It fails if they are registered already.
func NewOrphanMetrics(reg prometheus.Registerer) (*OrphanMetrics, error) {
	m := &OrphanMetrics{
		orphans: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "proxy_operator_orphans",
			Help: "Machines that no Proxy owns, as of the last sweep, by account and state: young, sighted (once), orphan, held (waits for a person).",
		}, []string{"provider", "state"}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "proxy_operator_orphans_deleted_total", Help: "Machines without a Proxy that the collector deleted, by account.",
		}, []string{"provider"}),
		sweeps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "proxy_operator_orphan_sweeps_total",
			Help: "Sweeps for orphans, by account and result: done, stopped (too many), failed, skipped (after API errors, or too early).",
		}, []string{"provider", "result"}),
	}
	for _, c := range []prometheus.Collector{m.orphans, m.deleted, m.sweeps} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *OrphanMetrics) swept(account, result string) {
	m.sweeps.WithLabelValues(account, result).Inc()
}

// found sets the gauges to what a sweep found and how it goes on.
func (m *OrphanMetrics) found(account string, found []finding, t tally, plan sweepPlan) {
	count := map[orphanState]int{}
	for _, f := range found {
		count[f.state]++
	}
	if plan == planStop {
		count[orphanHeld] = t.Orphans
		count[orphanProven] -= t.Orphans
	}
	for _, s := range []orphanState{orphanYoung, orphanSighted, orphanProven, orphanHeld} {
		m.orphans.WithLabelValues(account, string(s)).Set(float64(count[s]))
	}
}
