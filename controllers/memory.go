// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Calls is what this process knows about its own calls for one Proxy. It is lost with the process, and nothing but
// waiting times may depend on it: without it every step is still right, only later.
type Calls struct {
	Intent     Intent // the newest that this process wrote; its creates are counted below
	Sent       int
	Answered   int       // with a certain yes or no; a doubtful answer is none
	Yes        bool      // one of the answers was an instance
	AnsweredAt time.Time // the newest certain answer
	NoCapacity bool      // the newest answer was that the zone is full

	Touched time.Time // when this process last changed something for the Proxy in a cloud; lists from before don't count

	Waits time.Time // when the list began with which a Get waits for its turn; zero: none does

	Sighted   Intent    // the newest intent that was read, whoever wrote it,
	SightedAt time.Time // when it was first read,
	WasAhead  bool      // and whether its date lay ahead of our clock then: when that catches up, the intent isn't new again

	Deleted    map[providers.Ref]time.Time // Deletes that were accepted or answered NotFound
	Own        providers.Ref               // the newest instance that an answer showed to be the Proxy's, by its tags
	Seen       int64                       // the highest incarnation that a look showed
	RanUntil   time.Time                   // when that one was seen running for the last time
	Ran        ran                         // the instance that was last seen running
	EmptySince time.Time                   // since when every look showed nothing; zero: the last look showed something

	Booted     int64 // the newest incarnation through which traffic was seen to get,
	BootedIs   bool  // if there is one: that of mode External is 0
	BootFailed int64 // the newest that was deleted because it didn't come up, or fell ill when it was young

	Failures   int       // creates in a row that failed for no lasting reason
	HoldUntil  time.Time // no create before this, while the inputs are HoldInputs
	HoldInputs string

	Warned bool   // that the Proxy is another installation's
	Detail string // sanitised words of the provider about the newest failure, for the next Event
	Noted  string // the failure that was logged last; empty: a look has succeeded since
}

// wrote reports whether this process wrote the intent, so that it knows of every create sent under it.
func (c Calls) wrote(in Intent) bool {
	return c.Intent.UID == in.UID && c.Intent.Incarnation == in.Incarnation && c.Intent.At.Equal(in.At)
}

// deletedWithin reports whether a Delete of ref was accepted less than d before now.
func (c Calls) deletedWithin(ref providers.Ref, d time.Duration, now time.Time) bool {
	at, ok := c.Deleted[ref]
	return ok && now.Sub(at) < d
}

// forgetDeletes is longer than any cloud goes on listing what it was asked to delete.
const forgetDeletes = time.Hour

// memory keeps the Calls of every Proxy. The queue runs one pass per Proxy at a time, so that only the map is shared.
type memory struct {
	mu    sync.Mutex
	byID  map[types.NamespacedName]*remembered
	in    map[string]int                     // how many of them there are in each namespace
	lists map[string]*providers.Lister       // by account
	names map[types.UID]types.NamespacedName // of the Proxies that are probed
}

type remembered struct {
	uid      types.UID
	calls    Calls
	released bool   // this process let the Proxy go
	written  string // resourceVersion of this process's newest write
}

// of returns the Calls of p, empty ones if another object of that name was known before.
func (m *memory) of(p *v1alpha1.Proxy) *Calls { return &m.entry(p).calls }

// wrote notes the version that a write of this process has made.
func (m *memory) wrote(p *v1alpha1.Proxy) { m.entry(p).written = p.ResourceVersion }

// behind reports whether p, from the cache, is older than what this process itself has written. A pass on it would
// write the same again.
func (m *memory) behind(p *v1alpha1.Proxy) bool {
	r := m.entry(p)
	if r.written == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(p.ResourceVersion, r.written)
	if err == nil && order == 0 && r.released {
		// The answer to the write that let it go may bear the version from before it: nothing newer was ever stored.
		return controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer)
	}
	return err == nil && order < 0
}

func (m *memory) entry(p *v1alpha1.Proxy) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	if r, ok := m.byID[id]; ok && r.uid == p.UID {
		return r
	}
	if m.byID == nil {
		m.byID, m.in = map[types.NamespacedName]*remembered{}, map[string]int{}
	}
	if m.byID[id] == nil {
		m.in[id.Namespace]++
	}
	r := &remembered{uid: p.UID, calls: Calls{Deleted: map[providers.Ref]time.Time{}}}
	m.byID[id] = r
	return r
}

// lister returns the one Lister of the account.
func (r *ProxyReconciler) lister(acc providers.Account) *providers.Lister {
	m := &r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lists == nil {
		m.lists = map[string]*providers.Lister{}
	}
	l, ok := m.lists[acc.Name]
	if !ok {
		l = providers.NewLister(acc.Provider, r.Installation, r.Clock, func(owner providers.Tags) {
			id := types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}
			if r.Wake != nil && m.knows(id) {
				r.Wake(id)
			}
		})
		m.lists[acc.Name] = l
	}
	return l
}

// knows reports whether this process has worked on a Proxy of that name. The account may hold machines of namespaces that
// aren't watched: for those the cache has no answer, and a pass would fail for ever.
func (m *memory) knows(id types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byID[id] != nil
}

// forget returns the UID of the object that it forgets; empty: there was none.
func (m *memory) forget(id types.NamespacedName) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.byID[id]
	if !ok {
		return ""
	}
	delete(m.byID, id)
	delete(m.names, r.uid)
	if m.in[id.Namespace]--; m.in[id.Namespace] == 0 {
		delete(m.in, id.Namespace)
	}
	return r.uid
}

// empty reports whether nothing is known of any Proxy in the namespace.
func (m *memory) empty(namespace string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.in[namespace] == 0
}

// watching notes the name under which a verdict on the Proxy is to be told.
func (m *memory) watching(p *v1alpha1.Proxy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = map[types.UID]types.NamespacedName{}
	}
	m.names[p.UID] = types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

func (m *memory) named(uid types.UID) (types.NamespacedName, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok := m.names[uid]
	return id, ok
}

// snapshot copies the Calls, so that a Seen never changes under the rules that read it.
func (c *Calls) snapshot() Calls {
	s := *c
	s.Deleted = maps.Clone(c.Deleted)
	return s
}

// begin notes that this process wrote the intent and has sent nothing for it yet.
func (c *Calls) begin(in Intent) {
	c.Intent, c.Sent, c.Answered, c.Yes, c.AnsweredAt, c.NoCapacity = in, 0, 0, false, time.Time{}, false
	for ref, at := range c.Deleted {
		if in.At.Sub(at) > forgetDeletes {
			delete(c.Deleted, ref)
		}
	}
}

// send notes that a create goes out; mine: under an intent that this process wrote. What looks showed before it proves nothing any more.
func (c *Calls) send(mine bool, now time.Time) {
	c.EmptySince, c.Touched = time.Time{}, now
	if mine {
		c.Sent++
	}
}

// answer notes what came back from a create; before it, Sent was counted up, so that a panic in between leaves the call
// unanswered.
func (c *Calls) answer(err error, now time.Time) {
	class := providers.MutationClass(err)
	c.NoCapacity = class == providers.Capacity
	if class == providers.Ambiguous {
		return
	}
	c.Answered++
	c.AnsweredAt = now
	c.Yes = c.Yes || err == nil
	if err == nil {
		c.Failures = 0
	}
}

// backoff is the wait after one more failure for no lasting reason: 1 s, doubled up to 5 min. The queue's own doesn't
// do: the write of every new intent is an event, and an event doesn't wait.
func (c *Calls) backoff() time.Duration {
	d := min(time.Second<<min(c.Failures, 16), maxBackoff)
	c.Failures++
	return d
}

// sight notes when an intent was first read.
func (c *Calls) sight(in *Intent, now time.Time) {
	if in != nil && !c.sighted(*in) {
		c.Sighted, c.SightedAt, c.WasAhead = *in, now, in.ahead(now)
	}
}

func (c *Calls) sighted(in Intent) bool {
	return in.Incarnation == c.Sighted.Incarnation && in.At.Equal(c.Sighted.At)
}

// own notes that the recorded instance was found among the Proxy's.
func (c *Calls) own(recorded providers.Ref, found map[providers.Ref]providers.Instance) {
	if _, ok := found[recorded]; ok {
		c.Own = recorded
	}
}

// looked notes whether a look at every known place showed nothing.
func (c *Calls) looked(empty bool, at time.Time) {
	switch {
	case !empty:
		c.EmptySince = time.Time{}
	case c.EmptySince.IsZero():
		c.EmptySince = at
	}
}

// ran is an instance as it was when it was first seen running, at the address that it has.
type ran struct {
	instance providers.Instance
	at       time.Time
	before   string // the address that it had until then
}

// remember returns the instance, or what it was known to be by a newer read: for as long as reads lag, one that says
// Provisioning of a machine that was seen running, or has the address of before, is an old one, and must not take Ready away
// again.
func (c *Calls) remember(i providers.Instance, lag time.Duration, now time.Time) providers.Instance {
	switch {
	case c.Ran.newer(i, lag, now):
		return c.Ran.instance
	case i.State != providers.StateRunning:
		return i
	case c.Ran.instance.Ref != i.Ref:
		c.Ran = ran{instance: i, at: now}
	case c.Ran.instance.IP != i.IP:
		c.Ran = ran{instance: i, at: now, before: c.Ran.instance.IP}
	}
	c.RanUntil = now
	return i
}

// newer reports whether what is remembered is newer than a read that says otherwise.
func (r ran) newer(i providers.Instance, lag time.Duration, now time.Time) bool {
	if r.instance.Ref != i.Ref || now.Sub(r.at) > lag {
		return false
	}
	moved := r.instance.IP != i.IP && r.before == i.IP
	return i.State == providers.StateProvisioning || i.State == providers.StateRunning && moved
}

// hold puts off creates made from these inputs.
func (c *Calls) hold(inputs string, until time.Time) {
	c.HoldInputs, c.HoldUntil = inputs, until
}
