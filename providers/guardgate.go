// SPDX-License-Identifier: Apache-2.0

package providers

import "time"

// The gates of a GateChange. An open circuit is a closed gate.
const (
	GateQuota    = "Quota"
	GateCapacity = "Capacity"
	GateCircuit  = "Circuit"
)

// GateChange tells that a gate closed or opened.
type GateChange struct {
	Account string
	Zone    string // empty for the circuit, and where the account has no zones
	// Namespace that the gate is of, where each has a quota of its own; then there is no Zone.
	Namespace string
	Gate      string // GateQuota, GateCapacity or GateCircuit
	Open      bool   // calls go again
	Owner     Tags   // of the Proxy whose call changed it; zero: the call was for none
}

// How long a closed gate lets nobody through; and how long a quota gate does once a machine was deleted, which may have
// made room.
const (
	gateClosed = 5 * time.Minute
	gateFreed  = 30 * time.Second
)

// A gate that nobody has come to for this long is forgotten: its namespace may be gone, and with it who could ever open it.
// Who waits at a gate comes every five minutes, and one that was just told to wait a minute more. It is looked for once per
// gatesSwept.
const (
	gateForgotten = 15 * time.Minute
	gatesSwept    = time.Minute
)

// gateID names a gate: by place, since another one may have room.
type gateID struct {
	in   room
	gate string
}

// room is what has a quota, or room, of its own: a zone, or a namespace.
type room struct{ zone, namespace string }

func (g *Guarded) roomOf(req *CreateRequest) room {
	if g.traits.QuotaPerNamespace {
		return room{namespace: req.Tags.Namespace}
	}
	return room{zone: req.Key.Zone}
}

// gate holds back creates that would be told what another one was just told.
type gate struct {
	closed  bool
	next    time.Time // when one owner may probe
	probe   string    // that owner; empty: nobody
	since   time.Time // when it was given the role
	until   time.Time // when it loses it
	used    time.Time // when somebody came to it while it was closed
	stagger stagger
}

// gates are those that have been closed a short time ago.
type gates map[gateID]*gate

// sweep forgets the gates to which nobody comes any more.
func (gs gates) sweep(now time.Time) {
	for id, g := range gs {
		if now.Sub(g.used) >= gateForgotten {
			delete(gs, id)
		}
	}
}

// gateKind is a gate, and the class of the answer that closes it.
type gateKind struct {
	gate  string
	class ErrorClass
}

// gateKinds are the gates that a create passes, in this order.
func gateKinds() [2]gateKind {
	return [2]gateKind{{GateQuota, QuotaExceeded}, {GateCapacity, Capacity}}
}

// probing reports whether somebody else than owner has the role.
func (g *gate) probing(owner string, now time.Time) bool {
	return g.probe != "" && g.probe != owner && now.Before(g.until)
}

// holds returns the class of the refusal of a create, and when to come back; an empty class: none.
func (gs gates) holds(c *call, at room, now time.Time, perSecond float64) (ErrorClass, time.Duration) {
	for _, k := range gateKinds() {
		g := gs[gateID{at, k.gate}]
		if g == nil || !g.closed {
			continue
		}
		g.used = now
		switch {
		case now.Before(g.next):
			return k.class, g.stagger.wait(c, now, g.next, perSecond)
		case g.probing(c.key, now):
			return k.class, max(g.stagger.wait(c, now, g.since.Add(probeWait), perSecond), probeWait)
		}
	}
	return "", 0
}

// claim gives the role of the probe to an owner that may go. It isn't given before: one that waits for its turn in the
// line would keep it from those who can go.
func (gs gates) claim(at room, owner string, now time.Time, keep time.Duration) {
	for _, k := range gateKinds() {
		if g := gs[gateID{at, k.gate}]; g != nil && g.closed {
			if g.probe != owner {
				g.since = now
			}
			g.probe, g.until = owner, now.Add(keep)
		}
	}
}

// answer learns from the answer of a create. One that says nothing about room gives the role back and leaves the gate.
func (gs gates) answer(at room, owner string, class ErrorClass, now time.Time) []GateChange {
	var changes []GateChange
	for _, k := range gateKinds() {
		id := gateID{at, k.gate}
		g := gs[id]
		if class == k.class {
			if g == nil {
				g = &gate{}
				gs[id] = g
			}
			if !g.closed {
				changes = append(changes, GateChange{Zone: at.zone, Namespace: at.namespace, Gate: k.gate})
			}
			g.closed, g.next, g.probe, g.used = true, now.Add(gateClosed), "", now
			continue
		}
		if g == nil || !g.closed || g.probe != owner {
			continue
		}
		g.probe, g.used = "", now
		if !silent(class) && class != Throttled {
			g.closed = false
			changes = append(changes, GateChange{Zone: at.zone, Namespace: at.namespace, Gate: k.gate, Open: true})
		}
	}
	return changes
}

// freed lets one owner probe the quota soon, since a machine is going away. Deletes that follow each other don't make it
// more than one in gateFreed.
func (gs gates) freed(now time.Time) {
	for id, g := range gs {
		if soon := now.Add(gateFreed); id.gate == GateQuota && g.closed && g.next.After(soon) {
			g.next = soon
		}
	}
}
