// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// metrics are about the fleet as a whole: a series per proxy would cost more than the proxy.
type metrics struct {
	probes    *prometheus.CounterVec
	durations prometheus.Histogram
	lateness  prometheus.Histogram
	healths   *prometheus.Desc
	held      *prometheus.Desc
}

func newMetrics() metrics {
	return metrics{
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "proxy_operator_probes_total", Help: "Probes through proxies, by who failed and why.",
		}, []string{"fault", "reason"}),
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "proxy_operator_probe_duration_seconds", Help: "Duration of probes through proxies.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 14),
		}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "proxy_operator_probe_lateness_seconds", Help: "Time from when a proxy's round of probes was due to its start.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}),
		healths: prometheus.NewDesc("proxy_operator_health", "Proxies that are probed, by verdict.", []string{"health"}, nil),
		held: prometheus.NewDesc("proxy_operator_health_held",
			"1 while so many proxies of a pool have turned unhealthy at once that none of them is replaced.", []string{"pool"}, nil),
	}
}

func (m metrics) probed(o probe.Outcome, took time.Duration) {
	m.probes.WithLabelValues(string(o.Fault), string(o.Reason)).Inc()
	m.durations.Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (e *Engine) Describe(ch chan<- *prometheus.Desc) {
	e.metrics.probes.Describe(ch)
	e.metrics.durations.Describe(ch)
	e.metrics.lateness.Describe(ch)
	ch <- e.metrics.healths
	ch <- e.metrics.held
}

// Collect implements prometheus.Collector. Verdicts are counted when asked for: a gauge kept by hand drifts.
func (e *Engine) Collect(ch chan<- prometheus.Metric) {
	e.metrics.probes.Collect(ch)
	e.metrics.durations.Collect(ch)
	e.metrics.lateness.Collect(ch)
	e.mu.Lock()
	defer e.mu.Unlock()
	count := map[Health]int{Unknown: 0, Healthy: 0, Unhealthy: 0}
	for _, s := range e.core.subjects {
		count[s.health]++
	}
	for h, n := range count {
		ch <- prometheus.MustNewConstMetric(e.metrics.healths, prometheus.GaugeValue, float64(n), string(h))
	}
	for _, p := range e.core.poolList {
		held := 0.0
		if p.held {
			held = 1
		}
		ch <- prometheus.MustNewConstMetric(e.metrics.held, prometheus.GaugeValue, held, p.name)
	}
}
