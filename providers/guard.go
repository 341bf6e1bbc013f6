// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// GuardOptions are what the guards of one account need to know.
type GuardOptions struct {
	Limits Limits
	// Workers is how many reconciles run at once. One of them is kept free of this account, so that a slow cloud doesn't
	// hold up the others.
	Workers int
	// Clock is the guards' only clock; nil: the machine's.
	Clock clock.PassiveClock
	// Deadline bounds one call; nil: context.WithTimeout.
	Deadline func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Report is told of each change of a gate and of the circuit, in the goroutine of the call that changed it, when no lock
	// is held; nil: nobody.
	Report func(context.Context, GateChange)
}

// Guarded is one account's Provider behind the operator's own guards: a deadline for each call, a rate, a bound on calls
// in flight, the cloud's Retry-After, a circuit breaker, gates for quota and capacity, and the bound on machines. It never
// waits: a call that may not go is refused with an *Error that is Held, and says when to come back. A refusal is a certain
// no, since nothing was sent.
//
// All it knows is lost with the process. Nothing but waiting times may depend on it.
type Guarded struct {
	account  string
	provider Provider
	traits   Traits
	limits   Limits
	slots    int // calls in flight
	clock    clock.PassiveClock
	deadline func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	report   func(context.Context, GateChange)

	mu       sync.Mutex // guards all below; never held during a call or a report
	inFlight int
	admitted map[string]*admission // by owner
	queues   [families]*queue
	pause    pause
	circuit  circuit
	gates    gates
	swept    time.Time // when gates were last looked through for those to forget
	count    instanceCount
	refusals map[string]uint64 // by code
}

var (
	_ Provider = (*Guarded)(nil)
	_ Checker  = (*Guarded)(nil)
)

// The defaults of Limits, and the longest time for a read or delete.
const (
	DefaultCallsPerSecond = 20
	ReadDeadline          = 30 * time.Second
)

// NewGuarded puts guards around the provider of an account. There is one Guarded per account and process, or the limits
// don't hold.
func NewGuarded(account string, p Provider, o GuardOptions) *Guarded {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Deadline == nil {
		o.Deadline = context.WithTimeout
	}
	if o.Limits.CallsPerSecond <= 0 {
		o.Limits.CallsPerSecond = DefaultCallsPerSecond
	}
	if o.Limits.Burst <= 0 {
		o.Limits.Burst = max(1, int(2*o.Limits.CallsPerSecond))
	}
	g := &Guarded{
		account: account, provider: p, traits: p.Traits(), limits: o.Limits, slots: max(1, o.Workers-1),
		clock: o.Clock, deadline: o.Deadline, report: o.Report,
		admitted: map[string]*admission{}, refusals: map[string]uint64{},
		gates: gates{}, count: instanceCount{sent: map[string]*sentCreate{}},
	}
	for f := range g.queues {
		g.queues[f] = newQueue(o.Limits)
	}
	return g
}

// Create implements Provider.
func (g *Guarded) Create(ctx context.Context, req CreateRequest) (Instance, error) {
	return through(ctx, g, createCall(&req), func(ctx context.Context) (Instance, error) { return g.provider.Create(ctx, req) })
}

// Get implements Provider.
func (g *Guarded) Get(ctx context.Context, ref Ref) (Instance, error) {
	c := &call{op: "get instance", key: ref.String(), family: reads}
	return through(ctx, g, c, func(ctx context.Context) (Instance, error) { return g.provider.Get(ctx, ref) })
}

// Delete implements Provider.
func (g *Guarded) Delete(ctx context.Context, ref Ref) error {
	c := &call{op: "delete instance", key: ref.String(), family: changes, first: true}
	_, err := through(ctx, g, c, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.provider.Delete(ctx, ref) })
	return err
}

// ListByTag implements Provider. A list of a whole installation is what maxInstances counts from.
func (g *Guarded) ListByTag(ctx context.Context, sel Selector) ([]Instance, error) {
	c := &call{op: "list instances", key: "list " + sel.Installation + " " + sel.OwnerUID, family: reads, first: true}
	list, err := through(ctx, g, c, func(ctx context.Context) ([]Instance, error) { return g.provider.ListByTag(ctx, sel) })
	if err == nil && sel.OwnerUID == "" {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.count.listed(c.sentAt, sel, list)
	}
	return list, err
}

// Traits implements Provider.
func (g *Guarded) Traits() Traits { return g.traits }

// Check implements Checker: it passes the question on to a provider that can answer it.
func (g *Guarded) Check(req CreateRequest) error {
	if c, ok := g.provider.(Checker); ok {
		return c.Check(req)
	}
	return nil
}

// Shut reports whether creates for a namespace in the zone are held back until the cloud's answers change: by a gate or the
// circuit. It takes no place.
func (g *Guarded) Shut(zone, namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgetGates(g.clock.Now()) // those who ask here wait for others to open it
	if g.circuit.open > 0 {
		return true
	}
	at := g.roomOf(&CreateRequest{Key: Key{Zone: zone}, Tags: Tags{Namespace: namespace}})
	for _, k := range gateKinds() {
		if gate := g.gates[gateID{at, k.gate}]; gate != nil && gate.closed {
			return true
		}
	}
	return false
}

// Admit tells whether the Create of req may go, without sending anything. nil: for five seconds its Create takes no second
// token, and is refused only if an answer that comes in between closes a gate, opens the circuit or asks to wait; for a
// minute it counts as a machine that may come. Else the error that Create would return. It may be asked again.
//
// The reconciler asks before it writes its intent, so that a Proxy that waits costs no write.
func (g *Guarded) Admit(req CreateRequest) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, now := createCall(&req), g.clock.Now()
	if refusal := g.may(c, now); refusal != nil {
		return refusal
	}
	g.admitted[c.key] = &admission{name: req.Key.Name(), until: now.Add(placeKept), slotUntil: now.Add(slotKept)}
	g.gates.claim(g.roomOf(&req), c.key, now, placeKept)
	return nil
}
