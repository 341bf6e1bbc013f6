// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Metrics are the operator's own, beside controller-runtime's.
type Metrics struct {
	replacements *prometheus.CounterVec
	calls        *prometheus.CounterVec
	durations    *prometheus.HistogramVec
}

// NewMetrics makes the metrics and registers them. It fails if they are registered already.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		replacements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "proxy_operator_replacements_total", Help: "Machines that were replaced, by reason.",
		}, []string{"reason"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "proxy_operator_provider_calls_total", Help: "Calls to providers, by account, operation and class of the answer (OK, or the error's).",
		}, []string{"provider", "op", "class"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "proxy_operator_provider_call_duration_seconds", Help: "Duration of calls to providers, by account and operation.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}, []string{"provider", "op"}),
	}
	for _, c := range []prometheus.Collector{m.replacements, m.calls, m.durations} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Measured returns the registry with every provider's calls counted and timed.
func (m *Metrics) Measured(reg providers.Registry, c clock.PassiveClock) providers.Registry {
	out := make(providers.Registry, len(reg))
	for name, acc := range reg {
		acc.Provider = measured{Provider: acc.Provider, account: name, metrics: m, clock: c}
		out[name] = acc
	}
	return out
}

// measured counts and times the calls of one account.
type measured struct {
	providers.Provider
	account string
	metrics *Metrics
	clock   clock.PassiveClock
}

func (m measured) done(op string, start time.Time, class providers.ErrorClass) {
	if class == "" {
		class = "OK"
	}
	m.metrics.calls.WithLabelValues(m.account, op, string(class)).Inc()
	m.metrics.durations.WithLabelValues(m.account, op).Observe(m.clock.Since(start).Seconds())
}

// Create counts Provider.Create.
func (m measured) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	start := m.clock.Now()
	i, err := m.Provider.Create(ctx, req)
	m.done("create", start, providers.MutationClass(err))
	return i, err
}

// Get counts Provider.Get.
func (m measured) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	start := m.clock.Now()
	i, err := m.Provider.Get(ctx, ref)
	m.done("get", start, providers.ReadClass(err))
	return i, err
}

// Delete counts Provider.Delete.
func (m measured) Delete(ctx context.Context, ref providers.Ref) error {
	start := m.clock.Now()
	err := m.Provider.Delete(ctx, ref)
	m.done("delete", start, providers.MutationClass(err))
	return err
}

// ListByTag counts Provider.ListByTag.
func (m measured) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	start := m.clock.Now()
	list, err := m.Provider.ListByTag(ctx, sel)
	m.done("list", start, providers.ReadClass(err))
	return list, err
}

// Check passes the question on to a provider that can answer it.
func (m measured) Check(req providers.CreateRequest) error {
	if c, ok := m.Provider.(providers.Checker); ok {
		return c.Check(req)
	}
	return nil
}

// fleet counts the Proxies when it is asked to, from the cache: a gauge kept by hand drifts with every missed event.
type fleet struct {
	reader client.Reader
	desc   *prometheus.Desc
}

// NewFleetCollector returns the collector of proxy_operator_proxies{phase,provider}.
func NewFleetCollector(reader client.Reader) prometheus.Collector {
	return fleet{reader: reader, desc: prometheus.NewDesc("proxy_operator_proxies",
		"Proxies by phase and provider; provider is empty for mode External.", []string{"phase", "provider"}, nil)}
}

// Describe implements prometheus.Collector.
func (f fleet) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }

// Collect implements prometheus.Collector.
func (f fleet) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var list v1alpha1.ProxyList
	if err := f.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(f.desc, err)
		return
	}
	count := map[[2]string]float64{}
	for i := range list.Items {
		phase := list.Items[i].Status.Phase
		if phase == "" {
			phase = v1alpha1.PhasePending
		}
		count[[2]string{string(phase), list.Items[i].Spec.Provider}]++
	}
	for k, n := range count {
		ch <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, n, k[0], k[1])
	}
}
