// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How long an owner keeps what Admit gave it. The slot goes back much earlier: between Admit and Create there is one
// write to the API server, and where that write fails nobody gives the slot back.
const (
	placeKept = time.Minute
	slotKept  = 5 * time.Second
)

// The waits of refusals that have no end of their own.
const (
	busyWait    = 100 * time.Millisecond // and the time for those before it in the line
	probeWait   = time.Second            // for the answer of a probe
	unknownWait = time.Second            // for the first list
	fullWait    = time.Minute            // at maxInstances
)

// family is one of the budgets that clouds have for calls.
type family int

const (
	reads family = iota
	changes
	families
)

func (f family) String() string { return [families]string{"reads", "changes"}[f] }

// call is one call on its way through the guards.
type call struct {
	op     string // in the words of the errors
	key    string // of its place in the queue: the owner, the Ref or the list
	family family
	first  bool           // stands before the others of its family
	create *CreateRequest // nil: another call

	sentAt time.Time
	probe  bool // it tells whether the circuit may close
}

func createCall(req *CreateRequest) *call {
	return &call{op: "create instance", key: req.Key.ProxyUID, family: changes, create: req}
}

// class is that of the call's answer.
func (c *call) class(err error) ErrorClass {
	if c.family == changes {
		return MutationClass(err)
	}
	return ReadClass(err)
}

// admission is what Admit keeps for one owner.
type admission struct {
	name             string // of the instance: it says incarnation and zone too
	until, slotUntil time.Time
}

// errPanicked stands for the answer of a call that ended in a panic.
var errPanicked = errors.New("the call did not return")

// through takes one call through the guards, sends it under a deadline and learns from its answer.
func through[T any](ctx context.Context, g *Guarded, c *call, send func(context.Context) (T, error)) (T, error) {
	var none T
	if err := g.enter(c); err != nil {
		return none, err
	}
	answer := errPanicked
	defer func() { g.leave(ctx, c, answer) }()
	longest := ReadDeadline
	if c.create != nil {
		longest = g.traits.Deadline()
	}
	bounded, cancel := g.deadline(ctx, longest)
	defer cancel()
	out, err := send(context.WithValue(bounded, counterKey{}, func() { g.charge(c.family) }))
	answer = err
	return out, err
}

type (
	counterKey struct{}
	ownerKey   struct{}
)

// OnBehalfOf names the Proxy that the calls made with the context are for, so that a gate which they change can be told
// of on that Proxy. Only namespace, name and UID of the tags count.
func OnBehalfOf(ctx context.Context, owner Tags) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// CountCall is called by a provider for each further request within one of its methods: the next page of a list, a poll
// of an operation. It charges the account's budget and never waits; the calls that come after pay the debt.
func CountCall(ctx context.Context) {
	if charge, ok := ctx.Value(counterKey{}).(func()); ok {
		charge()
	}
}

func (g *Guarded) charge(f family) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues[f].charge(g.clock.Now())
}

// enter lets a call go or refuses it.
func (g *Guarded) enter(c *call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if refusal := g.may(c, now); refusal != nil {
		return refusal
	}
	g.inFlight++
	c.sentAt = now
	c.probe = g.circuit.claim(now)
	if c.create != nil {
		delete(g.admitted, c.key)
		g.gates.claim(g.roomOf(c.create), c.key, now, g.traits.Deadline()+placeKept)
		if g.limits.MaxInstances > 0 {
			g.count.send(c.create.Key.Name())
		}
	}
	return nil
}

// may returns nil for a call that may go now, and takes a token for it unless Admit did. What the cloud said comes first,
// then what it would say, then our own bounds: the user is told the weightiest reason.
func (g *Guarded) may(c *call, now time.Time) error {
	for owner, a := range g.admitted {
		if !now.Before(a.until) {
			delete(g.admitted, owner)
		}
	}
	g.forgetGates(now)
	if refusal := g.holds(c, now); refusal != nil {
		return refusal
	}
	room := g.room(c, now)
	if g.isAdmitted(c, now) {
		if !room {
			return g.refuse(c, Throttled, CodeBusy, busyWait)
		}
		return nil
	}
	if refusal := g.full(c); refusal != nil {
		return refusal
	}
	switch wait := g.queues[c.family].ask(now, c.key, c.first, room); {
	case wait == 0:
		return nil
	case !room:
		return g.refuse(c, Throttled, CodeBusy, wait)
	default:
		return g.refuse(c, Throttled, CodeRateLimited, wait)
	}
}

func (g *Guarded) forgetGates(now time.Time) {
	if now.Sub(g.swept) >= gatesSwept {
		g.swept = now
		g.gates.sweep(now)
	}
}

// holds refuses what the cloud's own answers hold back.
func (g *Guarded) holds(c *call, now time.Time) error {
	if wait, held := g.pause.holds(c, now, g.limits.CallsPerSecond); held {
		return g.refuse(c, Throttled, CodeBackingOff, wait)
	}
	if wait, held := g.circuit.holds(c, now, g.limits.CallsPerSecond); held {
		return g.refuse(c, Throttled, CodeCircuitOpen, wait)
	}
	if c.create == nil {
		return nil
	}
	if class, wait := g.gates.holds(c, g.roomOf(c.create), now, g.limits.CallsPerSecond); class != "" {
		return g.refuse(c, class, CodeGateClosed, wait)
	}
	return nil
}

// isAdmitted reports whether the token and the slot that Admit took for this very create are still its own. Later it takes
// others: a fleet that was admitted one by one while the API server was down would go at once when that is back.
func (g *Guarded) isAdmitted(c *call, now time.Time) bool {
	if c.create == nil {
		return false
	}
	a := g.admitted[c.key]
	return a != nil && a.name == c.create.Key.Name() && now.Before(a.slotUntil)
}

// room reports whether another call may be in flight. The slots that Admit has kept for others are taken.
func (g *Guarded) room(c *call, now time.Time) bool {
	taken := g.inFlight
	for owner, a := range g.admitted {
		if owner != c.key && now.Before(a.slotUntil) {
			taken++
		}
	}
	return taken < g.slots
}

// full refuses a create of one more machine than the account may hold, and every create as long as nobody knows how many
// there are.
func (g *Guarded) full(c *call) error {
	if c.create == nil || g.limits.MaxInstances <= 0 {
		return nil
	}
	name := c.create.Key.Name()
	switch {
	case g.count.listedAt.IsZero():
		return g.refuse(c, Throttled, CodeMaxInstances, unknownWait)
	case g.count.has(name) || g.count.with(g.admitted, c.key) < g.limits.MaxInstances:
		return nil
	}
	return g.refuse(c, QuotaExceeded, CodeMaxInstances, fullWait)
}

// refuse counts and words a refusal.
func (g *Guarded) refuse(c *call, class ErrorClass, code string, wait time.Duration) error {
	g.refusals[code]++
	return &Error{
		Class: class, Op: c.op, Code: code, RetryAfter: max(wait, time.Millisecond), Held: true,
		Err: fmt.Errorf("held back by the operator's guards of account %s", g.account),
	}
}

// leave learns from an answer.
func (g *Guarded) leave(ctx context.Context, c *call, err error) {
	for _, change := range g.learn(ctx, c, err) {
		change.Account = g.account
		if c.create != nil {
			change.Owner = c.create.Tags
		} else if owner, ok := ctx.Value(ownerKey{}).(Tags); ok {
			change.Owner = owner
		}
		if g.report != nil {
			g.report(ctx, change)
		}
	}
}

func (g *Guarded) learn(ctx context.Context, c *call, err error) []GateChange {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, class := g.clock.Now(), c.class(err)
	answered := isAnswer(err, class)
	g.inFlight--
	g.pause.answer(c, class, err, now)
	// What our own shutdown or a panic has cut off says nothing about the cloud.
	cut := errors.Is(err, errPanicked) || !answered && errors.Is(ctx.Err(), context.Canceled)
	changes := g.circuit.answer(c, answered, cut, now)
	switch {
	case c.create != nil:
		changes = append(changes, g.gates.answer(g.roomOf(c.create), c.key, class, now)...)
		g.count.answer(c, class, now, g.traits)
	case c.family == reads:
	case class == "":
		g.gates.freed(now)
	}
	return changes
}

// silent reports whether an answer of this class is none: the cloud didn't get to what it was asked.
func silent(class ErrorClass) bool { return class == Transient || class == Ambiguous }
