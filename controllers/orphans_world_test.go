// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// broom is a world with a collector, whose sweeps are run one by one.
type broom struct {
	*world
	c    *Collector
	logs []string

	registry *prometheus.Registry

	serial int // counts planted orphans
}

func newBroom(t *testing.T, p cloud.Profile) *broom {
	t.Helper()
	b := &broom{world: newWorld(t, p)}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"}}
	require.NoError(t, b.api.Create(t.Context(), own))
	b.c = &Collector{
		Cache: b.api, Live: b.api, Store: b.api, Namespace: own.Name, Installation: "inst", Recorder: b.world, Clock: b.clock,
		Log: funcr.New(func(_, line string) { b.logs = append(b.logs, line) }, funcr.Options{}),
	}
	b.mode(providers.OrphansDelete)
	b.crash()
	return b
}

// crash replaces the collector by that of a new process.
func (b *broom) crash() {
	b.t.Helper()
	b.registry = prometheus.NewRegistry()
	m, err := NewOrphanMetrics(b.registry)
	require.NoError(b.t, err)
	o := b.c
	b.c = &Collector{
		Providers: o.Providers, Cache: o.Cache, Live: o.Live, Store: o.Store, Namespace: o.Namespace, Installation: o.Installation,
		Watched: o.Watched, Recorder: o.Recorder, Clock: o.Clock, Log: o.Log, Busy: o.Busy, Unguarded: o.Unguarded, Metrics: m,
	}
}

func (b *broom) mode(m providers.OrphanMode) {
	acc := b.account("cloud")
	acc.Orphans = m
	b.c.Providers = providers.Registry{"cloud": acc}
}

// through puts a provider between the collector and the cloud.
func (b *broom) through(p providers.Provider) {
	acc := b.c.Providers["cloud"]
	acc.Provider = p
	b.c.Providers = providers.Registry{"cloud": acc}
}

func (b *broom) later(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// sweep runs a sweep, five minutes after the one before.
func (b *broom) sweep() error {
	b.later(sweepEvery)
	return b.c.Sweep(b.t.Context(), "cloud")
}

func (b *broom) swept(times int) {
	b.t.Helper()
	for range times {
		require.NoError(b.t, b.sweep())
	}
}

// plant makes a machine whose Proxy never was, older than any that is young.
func (b *broom) plant(installation, namespace, uid string) providers.Ref {
	b.t.Helper()
	ref := b.plantYoung(installation, namespace, uid)
	b.later(time.Hour)
	return ref
}

func (b *broom) plantYoung(installation, namespace, uid string) providers.Ref {
	zone := ""
	if zones := b.cloud.Profile().Zones; len(zones) > 0 {
		zone = zones[0]
	}
	k := providers.Key{InstallationID: installation, ProxyUID: uid, Incarnation: 1, Account: "cloud", Zone: zone}
	return b.cloud.Plant("cloud", zone, k.Name(), providers.Tags{
		ManagedBy: providers.ManagedBy, Installation: installation, OwnerUID: uid, Namespace: namespace, Name: "a", Incarnation: 1, SpecHash: "v1:x",
	})
}

// plantMany makes n orphans.
func (b *broom) plantMany(n int) []providers.Ref {
	b.t.Helper()
	refs := make([]providers.Ref, 0, n)
	for range n {
		b.serial++
		refs = append(refs, b.plantYoung("inst", b.ns, fmt.Sprintf("gone-%03d", b.serial)))
	}
	b.later(time.Hour)
	return refs
}

// left is how many of the machines are there and haven't been told to go.
func (b *broom) left(refs ...providers.Ref) int {
	n := 0
	for _, i := range b.cloud.All() {
		for _, r := range refs {
			if i.Ref == r && i.State != providers.StateDeleting {
				n++
			}
		}
	}
	return n
}

// lose takes a Proxy away without its machine, as somebody who removes finalizers does.
func (b *broom) lose(name string) providers.Ref {
	b.t.Helper()
	ref, err := providers.ParseRef(b.get(name).Status.ProviderID)
	require.NoError(b.t, err)
	b.edit(name, func(p *v1alpha1.Proxy) { p.Finalizers = nil })
	b.delete(name)
	require.True(b.t, b.gone(name))
	return ref
}

func (b *broom) gauge(state orphanState) int {
	return b.metric("proxy_operator_orphans", "cloud", string(state))
}

func (b *broom) results(result string) int {
	return b.metric("proxy_operator_orphan_sweeps_total", "cloud", result)
}

// metric is what a metric with these label values shows, as Prometheus sees it.
func (b *broom) metric(name string, labels ...string) int {
	b.t.Helper()
	families, err := b.registry.Gather()
	require.NoError(b.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(values, labels) {
				return int(m.GetGauge().GetValue() + m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// told counts the Events with that reason.
func (b *broom) told(reason string) int {
	n := 0
	for _, e := range b.events {
		if strings.Contains(e, " "+reason+" ") {
			n++
		}
	}
	return n
}

// logged counts the log lines with all these words.
func (b *broom) logged(words ...string) int {
	n := 0
lines:
	for _, l := range b.logs {
		for _, w := range words {
			if !strings.Contains(l, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

// note is the ConfigMap of the stopped sweep; nil: there is none.
func (b *broom) note() *corev1.ConfigMap {
	b.t.Helper()
	n := &corev1.ConfigMap{}
	err := b.api.Get(b.t.Context(), types.NamespacedName{Namespace: b.c.Namespace, Name: b.c.noteName("cloud")}, n)
	require.NoError(b.t, client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return n
}

// confirm does what the instructions say.
func (b *broom) confirm() {
	b.t.Helper()
	n := b.note()
	require.NotNil(b.t, n)
	patch := fmt.Sprintf(`{"data":{"confirm":"%s"}}`, n.Data["sweep"])
	require.Contains(b.t, n.Data["instructions"], fmt.Sprintf("kubectl -n %s patch configmap %s --type=merge -p '%s'", n.Namespace, n.Name, patch))
	require.NoError(b.t, b.api.Patch(b.t.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// reader is a client.Reader some of whose answers are replaced; nil: they aren't.
type reader struct {
	client.Reader
	get  func(client.Object) error
	list func(client.ObjectList) error
}

func (r reader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if r.get != nil {
		if err := r.get(o); err != nil {
			return err
		}
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

func (r reader) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	if r.list != nil {
		return r.list(l)
	}
	return r.Reader.List(ctx, l, opts...)
}

// knowsNobody is a cache that has lost its content, or never had any.
func (b *broom) knowsNobody() {
	b.c.Cache = reader{Reader: b.api, list: func(client.ObjectList) error { return nil }}
}

// listsAll is a provider that doesn't look at the installation in a selector.
type listsAll struct {
	providers.Provider
	b *broom
}

func (p listsAll) ListByTag(context.Context, providers.Selector) ([]providers.Instance, error) {
	return p.b.cloud.All(), nil
}
