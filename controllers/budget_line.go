// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// waiter is a Proxy whose machine is to be replaced when the budget has a slot. It keeps its place until it has one, or
// needs none any more.
type waiter struct {
	id     types.NamespacedName
	called bool      // a slot is free for it, and its pass is on its way
	rests  time.Time // it isn't called before this: its pass came to nothing when it was called last
}

// wait puts a Proxy in the line of its namespace, and reports whether it wasn't in it yet.
func (b *budget) wait(id types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line == nil {
		b.line = map[string][]waiter{}
	}
	line := b.line[id.Namespace]
	if i := slices.IndexFunc(line, func(w waiter) bool { return w.id == id }); i >= 0 {
		line[i].called = false
		return false
	}
	b.line[id.Namespace] = append(line, waiter{id: id})
	return true
}

// leave takes a Proxy out of the line, if it is in, and reports whether it was called.
func (b *budget) leave(id types.NamespacedName) (called bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := slices.DeleteFunc(b.line[id.Namespace], func(w waiter) bool {
		called = called || w.id == id && w.called
		return w.id == id
	})
	if len(line) == 0 {
		delete(b.line, id.Namespace)
		return called
	}
	b.line[id.Namespace] = line
	return called
}

// lapse ends the call of a Proxy whose pass came to nothing, and reports whether it had one. It keeps its place, and isn't
// called again for a while: where all fail they would call each other without end.
func (b *budget) lapse(id types.NamespacedName, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.line[id.Namespace]
	i := slices.IndexFunc(line, func(w waiter) bool { return w.id == id && w.called })
	if i < 0 {
		return false
	}
	line[i].called, line[i].rests = false, now.Add(driftPoll)
	return true
}

// next calls the first of the line, as many as there are slots for which nobody was called yet, and returns them.
func (b *budget) next(namespace string, now time.Time) []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := b.limit[namespace] - b.used(namespace)
	for _, w := range b.line[namespace] {
		if w.called {
			free--
		}
	}
	var called []types.NamespacedName
	for i := range b.line[namespace] {
		if w := &b.line[namespace][i]; free > 0 && !w.called && !now.Before(w.rests) {
			w.called = true
			free--
			called = append(called, w.id)
		}
	}
	return called
}

func (b *budget) used(namespace string) int {
	n := 0
	for _, s := range b.slots {
		if s.namespace == namespace {
			n++
		}
	}
	return n
}

// giveBack frees the Proxy's slot if it is over, and reports whether it did.
func (b *budget) giveBack(p *v1alpha1.Proxy, stuck time.Duration, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.slots[p.UID]
	if !ok || !s.over(p, stuck, now) {
		return false
	}
	delete(b.slots, p.UID)
	delete(b.full, p.Namespace) // who is called may count again
	return true
}

// giveUp frees the slot of a Proxy that is gone, and reports whether it had one.
func (b *budget) giveUp(uid types.UID, namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.slots[uid]; !ok {
		return false
	}
	delete(b.slots, uid)
	delete(b.full, namespace)
	return true
}

// forget drops what is known of a namespace whose last Proxy is gone, so that namespaces that come and go leave nothing. What a
// slot or a place in the line still tells of stays.
func (b *budget) forget(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used(namespace) > 0 || len(b.line[namespace]) > 0 {
		return
	}
	delete(b.known, namespace)
	delete(b.seen, namespace)
	delete(b.full, namespace)
	delete(b.limit, namespace)
}

// queueUp notes that the Proxy waits for a slot, and tells so when it begins.
func (r *ProxyReconciler) queueUp(ctx context.Context, p *v1alpha1.Proxy, cause Cause) {
	if !r.budget.wait(client.ObjectKeyFromObject(p)) {
		return
	}
	log.FromContext(ctx).Info("waits for the disruption budget", "cause", string(cause))
	r.Recorder.Eventf(p, nil, corev1.EventTypeNormal, v1alpha1.ReasonWaitsForBudget, "Replace",
		"The machine is to be replaced (cause: %s) and serves on until the namespace's disruption budget has a place.", cause)
}

// freeSlot gives the Proxy's slot back when what the pass wrote says that it is over. Then it is another's turn.
func (r *ProxyReconciler) freeSlot(p *v1alpha1.Proxy) {
	if !r.off(GuardSlotFreed) && r.budget.giveBack(p, r.stuck(), r.Clock.Now()) {
		r.call(p.Namespace)
	}
}

// endCall gives the call of a Proxy to another whose pass has neither taken the slot nor joined the line again, and that
// doesn't come again at once: an error, a guard that holds its look back, an account that refuses.
func (r *ProxyReconciler) endCall(id types.NamespacedName, res ctrl.Result, err error) {
	if (err != nil || res.RequeueAfter >= pollMax) && r.budget.lapse(id, r.Clock.Now()) {
		r.call(id.Namespace)
	}
}

// leaveLine takes a Proxy out of the line. If it was called it is another's turn.
func (r *ProxyReconciler) leaveLine(p *v1alpha1.Proxy) {
	if r.budget.leave(client.ObjectKeyFromObject(p)) {
		r.call(p.Namespace)
	}
}

// call wakes those for whom the namespace has slots.
func (r *ProxyReconciler) call(namespace string) {
	if r.Wake == nil {
		return
	}
	for _, id := range r.budget.next(namespace, r.Clock.Now()) {
		r.Wake(id)
	}
}

// budgetCollector reads the budget when it is asked to.
type budgetCollector struct {
	budget              *budget
	slots, limit, waits *prometheus.Desc
}

// BudgetCollector returns the collector of the disruption budget's metrics, by namespace. A namespace in which nothing is
// down by choice and nobody waits has no sample.
func (r *ProxyReconciler) BudgetCollector() prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("proxy_operator_"+name, help, []string{"namespace"}, nil)
	}
	return budgetCollector{
		budget: &r.budget,
		slots:  desc("disruption_slots", "Machines that are down, or whose successor isn't Ready yet, by the operator's choice, by namespace."),
		limit:  desc("disruption_slots_limit", "How many there may be, as of when a slot was last asked for."),
		waits:  desc("disruption_waiting", "Proxies whose machine serves and is to be replaced when there is a slot."),
	}
}

// Describe implements prometheus.Collector.
func (c budgetCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.slots
	ch <- c.limit
	ch <- c.waits
}

// Collect implements prometheus.Collector.
func (c budgetCollector) Collect(ch chan<- prometheus.Metric) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	namespaces := map[string]bool{}
	for _, s := range c.budget.slots {
		namespaces[s.namespace] = true
	}
	for ns := range c.budget.line {
		namespaces[ns] = true
	}
	for ns := range namespaces {
		gauge := func(d *prometheus.Desc, v int) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), ns)
		}
		gauge(c.slots, c.budget.used(ns))
		gauge(c.limit, c.budget.limit[ns])
		gauge(c.waits, len(c.budget.line[ns]))
	}
}
