// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Health probes proxies and knows what came of it. *health.Engine is one.
type Health interface {
	Watch(s health.Subject)
	Forget(uid string)
	Verdict(uid string) (health.Verdict, bool)
	Held(pool string) bool
}

// HealthDefaults hold where a Proxy's spec is silent.
type HealthDefaults struct {
	Targets           []probe.Target // none: a Proxy without targets of its own can't be Ready
	Interval, Timeout time.Duration
	UnhealthyTimeout  time.Duration // how long a machine must be unhealthy before it is replaced
	BootDeadline      time.Duration // how long a new one may take until traffic gets through it
}

// The thresholds where a Proxy's spec is silent: one lost packet is no outage.
const (
	failureThreshold = 3
	successThreshold = 1
)

// poolExternal is the pool of all proxies that others run.
const poolExternal = "external"

// Vitals are what is known of the health of one instance, or of an External proxy.
type Vitals struct {
	Probed    bool          // the operator probes; false: all else is zero
	NoTargets bool          // there is nothing to ask for through the proxy
	Of        providers.Ref // the instance; zero for mode External
	Health    health.Health // empty: it isn't watched
	Booted    bool          // traffic has got through this instance once
	Reason    string        // of the newest verdict; empty: there is none yet
	Since     time.Time     // of Health
	ExitIP    string
	Held      bool // so many of its pool fell ill at once that it is hardly their own fault
	Doubted   bool // the newest round doesn't blame it
}

// vitals watches the instance that serves, and returns what is known of it. One that isn't made from what is wanted now is
// watched as it was: the credentials of its successor aren't its own. After a restart nobody knows those; what status says of
// it then stands, since a proxy that refuses other credentials does what it should.
func (r *ProxyReconciler) vitals(p *v1alpha1.Proxy, s Seen) Vitals {
	if r.Health == nil {
		return Vitals{}
	}
	i := s.running()
	if i == nil {
		r.Health.Forget(string(p.UID))
		return Vitals{Probed: true, Booted: r.booted(p, s.newest(), false)}
	}
	v := Vitals{Probed: true, Of: i.Ref}
	sub := r.subject(p, s.Want.Material.Username, s.Want.Material.Password)
	sub.Incarnation, sub.Pool = i.Tags.Incarnation, i.Ref.Account+"/"+i.Zone
	sub.Proxy.Host, sub.Proxy.Port, sub.Proxy.Protocol = i.IP, int(i.Port), probe.Protocol(s.Want.Material.Protocol)
	sub.Proxy.Trusted = true // the provider told the address
	if i.Port == 0 {
		sub.Proxy.Port = int(s.Want.Material.Port)
	}
	if !sameAddress(p, i) {
		sub.Prior, sub.PriorReason, sub.PriorExitIP = health.Unknown, "", ""
	}
	known, ok := r.Health.Verdict(string(p.UID))
	switch {
	case s.Want.Problem == nil && !s.Want.drifted(*i):
		v.NoTargets = !r.watch(p, sub)
	case !ok || known.Incarnation != i.Tags.Incarnation:
		r.Health.Forget(string(p.UID))
		v.NoTargets = len(sub.Targets) == 0
		v.recall(p, i)
	case known.Hearsay: // a view from before that began it
		v.recall(p, i)
	}
	r.heard(p, &v, i.Tags.Incarnation)
	v.Held = r.Health.Held(sub.Pool)
	return v
}

// recall takes what status says of that very machine.
func (v *Vitals) recall(p *v1alpha1.Proxy, i *providers.Instance) {
	v.Health = health.Unknown
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	if was := prior(p); was != health.Unknown && sameAddress(p, i) {
		v.Health, v.Reason, v.Since, v.ExitIP, v.Doubted = was, c.Reason, c.LastTransitionTime.Time, p.Status.ExitIP, true
	}
}

// externalVitals are the same for an endpoint that somebody else runs. While its credentials can't be told, it is watched
// with those that it had, and what was known of it holds; not where the spec may name another one by now.
func (r *ProxyReconciler) externalVitals(p *v1alpha1.Proxy, username, password string, told bool) Vitals {
	if r.Health == nil {
		return Vitals{}
	}
	v := Vitals{Probed: true, Health: health.Unknown}
	switch {
	case told:
	case p.Status.ObservedGeneration != p.Generation:
		r.Health.Forget(string(p.UID))
		return v
	default:
		v.Health, v.Reason, v.ExitIP = prior(p), reasonAt(p, v1alpha1.ConditionHealthy), p.Status.ExitIP
		r.heard(p, &v, 0)
		return v
	}
	sub := r.subject(p, username, password)
	if p.Status.ObservedGeneration != p.Generation {
		sub.Prior, sub.PriorReason, sub.PriorExitIP = health.Unknown, "", ""
	}
	sub.Pool = poolExternal
	e := p.Spec.Endpoint
	sub.Proxy.Host, sub.Proxy.Port, sub.Proxy.Protocol = e.Host, int(e.Port), probe.HTTP
	if e.Protocol != nil {
		sub.Proxy.Protocol = probe.Protocol(*e.Protocol)
	}
	v.NoTargets = !r.watch(p, sub)
	r.heard(p, &v, 0)
	return v
}

// subject is how the Proxy is to be probed, but for where.
func (r *ProxyReconciler) subject(p *v1alpha1.Proxy, username, password string) health.Subject {
	d := r.HealthDefaults
	s := health.Subject{
		UID: string(p.UID), Targets: d.Targets, Interval: d.Interval, Timeout: d.Timeout,
		FailureThreshold: failureThreshold, SuccessThreshold: successThreshold, CheckOpen: username != "",
	}
	s.Proxy.Username, s.Proxy.Password = username, password
	s.Prior, s.PriorReason, s.PriorExitIP = prior(p), probe.Reason(reasonAt(p, v1alpha1.ConditionHealthy)), p.Status.ExitIP
	h := p.Spec.HealthCheck
	if h == nil {
		return s
	}
	if len(h.Targets) > 0 {
		s.Targets = nil
		for _, t := range h.Targets {
			s.Targets = append(s.Targets, probe.Target{URL: t.URL, ExpectStatus: statuses(t.ExpectedStatus)})
		}
	}
	s.Quorum = int(value(h.Quorum, 0))
	s.Interval, s.Timeout = duration(h.Interval, s.Interval), duration(h.Timeout, s.Timeout)
	s.Timeout = min(s.Timeout, max(s.Interval, time.Second))
	s.FailureThreshold, s.SuccessThreshold = int(value(h.FailureThreshold, failureThreshold)), int(value(h.SuccessThreshold, successThreshold))
	return s
}

// watch begins or goes on to probe, or reports that there is nothing to probe with.
func (r *ProxyReconciler) watch(p *v1alpha1.Proxy, s health.Subject) bool {
	if len(s.Targets) == 0 {
		r.Health.Forget(s.UID)
		return false
	}
	r.memory.watching(p)
	r.Health.Watch(s)
	return true
}

// heard adds what the engine thinks of the incarnation, and whether traffic ever got through it: this process saw it, or
// status says so of that very machine. Unknown is what status says of one that never worked.
func (r *ProxyReconciler) heard(p *v1alpha1.Proxy, v *Vitals, incarnation int64) {
	recalled := v.Health == health.Healthy || v.Health == health.Unhealthy
	if known, ok := r.Health.Verdict(string(p.UID)); ok && known.Incarnation == incarnation {
		v.Doubted = known.Doubted
		if !known.Hearsay || !recalled {
			v.Health, v.Reason, v.Since, v.ExitIP = known.Health, string(known.Reason), known.Since, known.ExitIP
		}
	}
	v.Booted = r.booted(p, incarnation, v.Health == health.Healthy)
}

// booted reports whether traffic ever got through the incarnation, and keeps it: a list from before the machine ran takes it
// out of status.
func (r *ProxyReconciler) booted(p *v1alpha1.Proxy, incarnation int64, now bool) bool {
	calls := r.memory.of(p)
	if now || worked(p, incarnation) {
		calls.Booted, calls.BootedIs = incarnation, true
	}
	return calls.BootedIs && calls.Booted == incarnation
}

// prior is what status said of the machine: the one thing that is read back of health, so that a healthy fleet isn't
// called unhealthy while a new process gets to know it.
func prior(p *v1alpha1.Proxy) health.Health {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return health.Unknown
	case c.Status == metav1.ConditionTrue:
		return health.Healthy
	default:
		return health.Unhealthy
	}
}

// worked reports whether status says that requests got through that very machine once.
func worked(p *v1alpha1.Proxy, incarnation int64) bool {
	return prior(p) != health.Unknown && sameInstance(p, incarnation)
}

func sameInstance(p *v1alpha1.Proxy, incarnation int64) bool {
	if p.Status.Instance == nil {
		return incarnation == 0
	}
	return p.Status.Instance.Incarnation == incarnation
}

// sameAddress reports whether what status says is of this machine at the address where it is now.
func sameAddress(p *v1alpha1.Proxy, i *providers.Instance) bool {
	return sameInstance(p, i.Tags.Incarnation) && p.Status.IP == i.IP
}

// unwatch ends the probes of a Proxy.
func (r *ProxyReconciler) unwatch(uid types.UID) {
	if r.Health != nil {
		r.Health.Forget(string(uid))
	}
}

// HealthChanged is for the engine to call when a verdict changed: the Proxy gets a pass, which writes it.
func (r *ProxyReconciler) HealthChanged(uid string) {
	if id, ok := r.memory.named(types.UID(uid)); ok && r.Wake != nil {
		r.Wake(id)
	}
}

// HealthNamed is for the engine to call when it logs: the keys by which the log names a Proxy.
func (r *ProxyReconciler) HealthNamed(uid string) []any {
	if id, ok := r.memory.named(types.UID(uid)); ok {
		return []any{"proxy", id}
	}
	return nil
}

// HealthHeld is for the engine to call when the replacement of unhealthy machines in a pool stops or goes on. It tells log
// and Events; the Event is on the first of the pool's Proxies, since a pool is no object.
func (r *ProxyReconciler) HealthHeld(ctx context.Context, pool string, held bool) {
	kind, reason, note := corev1.EventTypeNormal, v1alpha1.ReasonRemediationResumed, "Unhealthy machines in "+pool+" are replaced again."
	if held {
		kind, reason = corev1.EventTypeWarning, v1alpha1.ReasonRemediationHeld
		note = "Many machines in " + pool + " turned unhealthy at once, which is hardly their own fault; none is replaced for it until 5 minutes have passed without more. Look at the network between operator, machines and targets."
	}
	if pool == poolExternal { // where nothing is replaced
		log.FromContext(ctx).Info("many External proxies turned unhealthy at once, or have stopped to", "held", held)
		return
	}
	log.FromContext(ctx).Info(note, "pool", pool, "held", held)
	var list v1alpha1.ProxyList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return // the log has it
	}
	var of []*v1alpha1.Proxy
	for i := range list.Items {
		p := &list.Items[i]
		if in := poolOf(p); in == pool {
			of = append(of, p)
		}
	}
	if len(of) > 0 {
		first := slices.MinFunc(of, func(a, b *v1alpha1.Proxy) int {
			return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
		})
		r.Recorder.Eventf(first.DeepCopy(), nil, kind, reason, "Probe", "%s", note)
	}
}

func poolOf(p *v1alpha1.Proxy) string {
	if p.Spec.Mode == v1alpha1.ModeExternal {
		return poolExternal
	}
	return recordedRef(p).Account + "/" + p.Status.Zone
}

func reasonAt(p *v1alpha1.Proxy, kind string) string {
	if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

func statuses(codes []v1alpha1.StatusCode) []int {
	var out []int
	for _, c := range codes {
		out = append(out, int(c))
	}
	return out
}

func value[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

func duration(d *metav1.Duration, other time.Duration) time.Duration {
	if d == nil {
		return other
	}
	return d.Duration
}
