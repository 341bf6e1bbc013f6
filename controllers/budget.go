// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// budget bounds how many machines of a namespace are down at a time because the operator chose to replace them: for drift,
// a rotated Secret, age, a move, a request, or their health. Without it one edit of a Secret takes a whole fleet down
// (kubernetes-sigs/karpenter#957).
//
// A slot is taken before the machine is deleted and held until its successor is Ready, so that a rollout of something that
// doesn't work stops by itself. It goes back early where the successor can't be made for want of quota or capacity.
type budget struct {
	mu    sync.Mutex
	slots map[types.UID]slot
	known map[string]bool                // namespaces whose slots were rebuilt after a start
	seen  map[string]map[types.UID]*slot // by namespace, until it is known: those on which this process has made a pass, and what they held before it
	fleet int                            // Managed Proxies of the namespace that was counted last
	full  map[string]time.Time           // until when nobody counts again in a namespace that had no slot left

	limit map[string]int      // slots of a namespace, as of its last count
	line  map[string][]waiter // who waits for one
}

// The waits. In a large fleet many wait.
const (
	countAgain  = time.Second
	waitForEach = 10 * time.Millisecond
)

type slot struct {
	namespace   string
	incarnation int64     // of the machine that was taken down
	since       time.Time // when it was taken
}

// share is how many of n may be down: the given number or part of them, rounded down, and at least one.
func share(of intstr.IntOrString, n int) int {
	most, err := intstr.GetScaledValueFromIntOrPercent(&of, n, false)
	if err != nil {
		return 1
	}
	return max(1, most)
}

// isFull reports whether the namespace had no slot left a moment ago. A fleet that waits must not count itself all the time.
func (b *budget) isFull(namespace string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.full[namespace])
}

// claim asks for a slot for one Proxy.
type claim struct {
	of          *v1alpha1.Proxy
	incarnation int64            // of the machine that is to go
	fleet       []v1alpha1.Proxy // all of the namespace
	most        intstr.IntOrString
	stuck       time.Duration // how long a slot is held though no successor can be made
	now         time.Time
	unguarded   map[Guard]bool
}

// take takes a slot, or reports that none is free. Who has one keeps it.
func (b *budget) take(c claim) bool {
	p, now := c.of, c.now
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.slots == nil {
		b.slots, b.known, b.full, b.limit = map[types.UID]slot{}, map[string]bool{}, map[string]time.Time{}, map[string]int{}
	}
	if !b.known[p.Namespace] {
		b.known[p.Namespace] = true
		if !c.unguarded[GuardSlotsRebuilt] {
			b.rebuild(c.fleet, b.seen[p.Namespace], now)
		}
		delete(b.seen, p.Namespace)
	}
	byUID := make(map[types.UID]*v1alpha1.Proxy, len(c.fleet))
	managed := 0
	for i := range c.fleet {
		q := &c.fleet[i]
		byUID[q.UID] = q
		if q.Spec.Mode != v1alpha1.ModeExternal && q.DeletionTimestamp.IsZero() {
			managed++
		}
	}
	b.fleet = managed
	used := b.usedByOthers(c, byUID)
	b.limit[p.Namespace] = share(c.most, managed)
	if _, has := b.slots[p.UID]; has {
		return true // also when the fleet has shrunk meanwhile: two who wait for each other's slots would wait for ever
	}
	if used >= b.limit[p.Namespace] {
		b.full[p.Namespace] = now.Add(countAgain)
		return false
	}
	b.slots[p.UID] = slot{p.Namespace, c.incarnation, now}
	return true
}

// usedByOthers counts the slots of the claim's namespace but its own, after those that are over have gone back.
func (b *budget) usedByOthers(c claim, byUID map[types.UID]*v1alpha1.Proxy) int {
	used := 0
	for uid, s := range b.slots {
		switch {
		case s.namespace != c.of.Namespace:
		case s.over(byUID[uid], c.stuck, c.now) && !c.unguarded[GuardSlotFreed]:
			delete(b.slots, uid)
		case uid != c.of.UID:
			used++
		}
	}
	return used
}

// over reports whether a slot is free again: the Proxy is gone, its next machine is Ready, nothing is to be replaced any
// more, or none can be made for so long that it says nothing about what is being rolled out.
func (s slot) over(p *v1alpha1.Proxy, stuck time.Duration, now time.Time) bool {
	if p == nil || !p.DeletionTimestamp.IsZero() {
		return true
	}
	next := p.Status.Instance != nil && p.Status.Instance.Incarnation > s.incarnation
	ready := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
	calm := !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReconciling)
	if ready && (next || (calm && now.Sub(s.since) > settle)) { // the user took the change back before it was acted on
		return true
	}
	reason := reasonAt(p, v1alpha1.ConditionProvisioned)
	full := reason == v1alpha1.ReasonQuotaExceeded || reason == v1alpha1.ReasonCapacityExhausted
	return full && now.Sub(s.since) > stuck
}

// rebuild gives slots to those that an earlier process has taken down: they had a machine, and have none that works yet. What
// their status said before this process's first pass counts too: while a list from before still shows the machine, that pass
// writes that it runs, and that nobody knows whether it ever worked.
func (b *budget) rebuild(fleet []v1alpha1.Proxy, before map[types.UID]*slot, now time.Time) {
	for i := range fleet {
		p := &fleet[i]
		if s := cmp.Or(takenDown(p, now), before[p.UID]); s != nil {
			b.slots[p.UID] = *s
		}
	}
}

// takenDown is the slot that a Proxy holds by what its status says; nil: none.
func takenDown(p *v1alpha1.Proxy, now time.Time) *slot {
	in := readIntent(p)
	if p.Spec.Mode == v1alpha1.ModeExternal || !p.DeletionTimestamp.IsZero() || in == nil || meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
		return nil
	}
	provisioned := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProvisioned)
	switch {
	case replacing(p) && !provisioned: // gone, and its successor not asked for
		return &slot{p.Namespace, in.Incarnation, now}
	case in.Incarnation > 1 && (!provisioned || prior(p) == "Unknown"): // the successor doesn't work yet
		return &slot{p.Namespace, in.Incarnation - 1, now}
	}
	return nil
}

// replacing reports whether a machine is gone or going, and its successor wasn't asked for; beside one that serves, that
// another is wanted.
func replacing(p *v1alpha1.Proxy) bool {
	return reasonAt(p, v1alpha1.ConditionProvisioned) == v1alpha1.ReasonReplacing || reasonAt(p, v1alpha1.ConditionReconciling) == v1alpha1.ReasonReplacing
}

// voluntary reports whether the step takes down a machine that serves, or that did once, though it could stay.
func (s Seen) voluntary(st Step) bool {
	if st.Do != Destroy || s.Deleting {
		return false
	}
	switch i := s.running(); {
	case i == nil && s.Vitals.Booted: // by a list from before it ran: status says that it worked
	case i == nil, i.Ref != st.Of, s.Vitals.Probed && !s.Vitals.Booted:
		return false // nobody is served by it
	}
	switch st.Cause {
	case CauseDrift, CauseMoved, CauseRequested, CauseAge, CauseUnhealthy:
		return true
	default:
		return false
	}
}

// mayDisrupt returns 0 if a voluntary step may go: its successor could be made now, and the namespace's budget has a slot
// left. Else it returns when to ask again; who waits for a slot is woken before, when one is free.
func (r *ProxyReconciler) mayDisrupt(ctx context.Context, p *v1alpha1.Proxy, s Seen, st Step) (time.Duration, error) {
	switch {
	case !s.voluntary(st) || r.off(GuardBudget):
		return 0, nil
	case r.shut(p.Namespace, s):
		return r.budget.waiting(), nil
	case r.budget.isFull(p.Namespace, r.Clock.Now()) && !r.budget.has(p.UID):
		if !r.budget.knows(p.Namespace) {
			return r.budget.waiting(), nil
		}
		r.queueUp(ctx, p, st.Cause)
		return driftPoll, nil
	}
	fleet, err := r.fleet(ctx, p)
	switch {
	case err != nil:
		return 0, err
	case fleet == nil:
		return r.budget.waiting(), nil
	}
	taken := r.budget.take(claim{
		of: p, incarnation: s.newest(), fleet: fleet, most: r.disruption(), stuck: r.stuck(), now: r.Clock.Now(), unguarded: r.Unguarded,
	})
	if !taken {
		r.queueUp(ctx, p, st.Cause)
		return driftPoll, nil
	}
	r.budget.leave(client.ObjectKeyFromObject(p))
	r.call(p.Namespace) // the count may have freed more than this one
	return 0, nil
}

// fleet is all Proxies of the namespace; none: it isn't known yet who was taken down before. The slots are rebuilt from what
// passes of this process have written of each Proxy, since the last process may have ended between a delete and its status.
// And that is read past the cache, which may be from before.
func (r *ProxyReconciler) fleet(ctx context.Context, asks *v1alpha1.Proxy) ([]v1alpha1.Proxy, error) {
	fleet, err := r.fleetFrom(ctx, r.Client, asks.Namespace)
	if err != nil || r.budget.knows(asks.Namespace) {
		return fleet, err
	}
	if !r.off(GuardSlotsSeen) && r.budget.begins(asks, fleet, r.Clock.Now()) {
		return nil, nil
	}
	if len(fleet) == 1 || r.off(GuardSlotsLive) { // alone: there is nobody to count
		return fleet, nil
	}
	return r.fleetFrom(ctx, r.APIReader, asks.Namespace)
}

func (r *ProxyReconciler) fleetFrom(ctx context.Context, from client.Reader, namespace string) ([]v1alpha1.Proxy, error) {
	ctx, cancel := r.within(ctx, callTimeout)
	defer cancel()
	var list v1alpha1.ProxyList
	if err := from.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Proxies: %w", err)
	}
	return list.Items, nil
}

// passed notes that a pass has told what it saw of the Proxy, or that it can't, and what status had said before.
func (b *budget) passed(before *v1alpha1.Proxy, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[before.Namespace] {
		return
	}
	if b.seen == nil {
		b.seen = map[string]map[types.UID]*slot{}
	}
	seen := b.seen[before.Namespace]
	if seen == nil {
		seen = map[types.UID]*slot{}
		b.seen[before.Namespace] = seen
	}
	if _, again := seen[before.UID]; !again {
		seen[before.UID] = takenDown(before, now)
	}
}

// begins reports whether some of the namespace beside the one that asks had no pass by this process yet.
func (b *budget) begins(asks *v1alpha1.Proxy, fleet []v1alpha1.Proxy, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range fleet {
		p := &fleet[i]
		if p.Name == asks.Name || p.Spec.Mode == v1alpha1.ModeExternal || !p.DeletionTimestamp.IsZero() {
			continue
		}
		if _, passed := b.seen[p.Namespace][p.UID]; passed {
			continue
		}
		if b.full == nil {
			b.full = map[string]time.Time{}
		}
		b.full[asks.Namespace], b.fleet = now.Add(countAgain), len(fleet)
		return true
	}
	return false
}

// stuck is how long a slot is held though no successor can be made.
func (r *ProxyReconciler) stuck() time.Duration { return max(r.HealthDefaults.BootDeadline, settle) }

func (r *ProxyReconciler) disruption() intstr.IntOrString {
	if r.DisruptionBudget == (intstr.IntOrString{}) {
		return intstr.FromString("10%")
	}
	return r.DisruptionBudget
}

// shut reports whether creates are held in all the places where the successor could be made.
func (r *ProxyReconciler) shut(namespace string, s Seen) bool {
	g, ok := r.Providers[s.Want.Account].Provider.(interface {
		Shut(zone, namespace string) bool
	})
	if !ok {
		return false
	}
	zones := s.Want.Candidates
	if len(zones) == 0 {
		zones = []string{""}
	}
	for _, z := range zones {
		if !g.Shut(z, namespace) {
			return false
		}
	}
	return true
}

var _ interface {
	Shut(zone, namespace string) bool
} = (*providers.Guarded)(nil)

// knows reports whether the namespace's slots were rebuilt.
func (b *budget) knows(namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[namespace]
}

func (b *budget) has(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.slots[uid]
	return ok
}

// waiting is when who waits for creates to go again comes again.
func (b *budget) waiting() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(max(pollMax, time.Duration(b.fleet)*waitForEach), driftPoll)
}

// waits is the step of a Proxy whose machine is to be replaced when there is a slot.
func (s Seen) waits(st Step, after time.Duration) Step {
	keep := s.running()
	if keep == nil { // the list is from before it ran
		if n := slices.IndexFunc(s.Instances, func(i providers.Instance) bool { return i.Ref == st.Of }); n >= 0 {
			keep = &s.Instances[n]
		}
	}
	return Step{Do: Wait, Keep: keep, Cause: st.Cause, After: after}
}
