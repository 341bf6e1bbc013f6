// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"errors"
	"time"
)

// When the circuit opens, and for how long.
const (
	circuitFailures = 5
	circuitFirst    = 30 * time.Second
	circuitLongest  = 5 * time.Minute
)

// How long an account pauses: after a Throttled answer that doesn't say, doubled while they go on; and at most. The
// bound is for a Retry-After that is a mistake.
const (
	pauseFirst   = time.Second
	pauseUnsaid  = time.Minute
	pauseLongest = time.Hour
)

// stagger spreads creates that wait for one moment: the next who is refused is told to come one call's time later, so that
// not all come back at once to find that one goes and the others wait.
type stagger struct {
	end time.Time
	n   float64
}

const staggerLongest = time.Minute

// wait is the time until end for the next caller. Calls that aren't creates are few, and aren't put off.
func (s *stagger) wait(c *call, now, end time.Time, perSecond float64) time.Duration {
	if !s.end.Equal(end) {
		*s = stagger{end: end}
	}
	wait := max(end.Sub(now), 0)
	if c.create == nil {
		return wait
	}
	later := min(seconds(s.n/perSecond), staggerLongest)
	s.n++
	return wait + later
}

// pause is the account's rest after a Throttled answer.
type pause struct {
	since, until time.Time
	unsaid       time.Duration // the newest wait that we chose
	stagger      stagger
}

func (p *pause) holds(c *call, now time.Time, perSecond float64) (time.Duration, bool) {
	if !now.Before(p.until) {
		return 0, false
	}
	return p.stagger.wait(c, now, p.until, perSecond), true
}

func (p *pause) answer(c *call, class ErrorClass, err error, now time.Time) {
	if class != Throttled {
		if c.sentAt.After(p.since) {
			p.unsaid = 0
		}
		return
	}
	var said time.Duration
	var e *Error
	if errors.As(err, &e) {
		said = e.RetryAfter
	}
	if said <= 0 {
		if p.unsaid == 0 || c.sentAt.After(p.since) { // calls that were in flight together are one reason to wait longer
			p.unsaid = min(max(pauseFirst, 2*p.unsaid), pauseUnsaid)
		}
		said = p.unsaid
	}
	p.since = now
	if until := now.Add(min(said, pauseLongest)); until.After(p.until) {
		p.until = until
	}
}

// circuit holds every call back from a cloud that doesn't answer.
type circuit struct {
	failures int           // in a row
	open     time.Duration // how long it stays open; 0: it is closed
	until    time.Time     // when one call may probe
	probedAt time.Time     // when the probe that is under way was sent; zero: there is none
	stagger  stagger
}

func (b *circuit) holds(c *call, now time.Time, perSecond float64) (time.Duration, bool) {
	switch {
	case b.open == 0:
		return 0, false
	case !b.probedAt.IsZero():
		return max(b.stagger.wait(c, now, b.probedAt.Add(probeWait), perSecond), probeWait), true
	case now.Before(b.until):
		return b.stagger.wait(c, now, b.until, perSecond), true
	}
	return 0, false
}

// claim makes the call that is about to be sent the probe, if one is due.
func (b *circuit) claim(now time.Time) bool {
	if b.open == 0 {
		return false
	}
	b.probedAt = now
	return true
}

// answer counts failures and decides at the probe's answer. answered: the cloud's API works, whatever it said; cut: the
// answer says nothing.
func (b *circuit) answer(c *call, answered, cut bool, now time.Time) []GateChange {
	if c.probe {
		b.probedAt = time.Time{}
	}
	switch {
	case cut, b.open > 0 && !c.probe: // sent before the circuit opened
		return nil
	case answered:
		was := b.open
		b.failures, b.open = 0, 0
		if was > 0 {
			return []GateChange{{Gate: GateCircuit, Open: true}}
		}
		return nil
	}
	b.failures++
	switch {
	case c.probe:
		b.open = min(2*b.open, circuitLongest)
		b.until = now.Add(b.open)
	case b.failures >= circuitFailures:
		b.open = circuitFirst
		b.until = now.Add(b.open)
		return []GateChange{{Gate: GateCircuit, Open: false}}
	}
	return nil
}
