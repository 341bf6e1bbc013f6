// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// standing is the state of one subject's verdict. It is a value: the rules return a new one.
type standing struct {
	health    Health
	reason    probe.Reason
	since     time.Time // of health
	own       bool      // rounds have decided it; else it is what status said, or Unknown
	anonymity string
	exit      exit

	good, bad int       // rounds in a row; rounds that say nothing leave them
	last      finding   // of the newest round
	failing   time.Time // the first round that wasn't good since the last that was; zero: none
	open      bool      // it serves without credentials

	flaps   int // times it turned unhealthy, as of flapped
	flapped time.Time

	other    probe.Reason // a reason that isn't shown yet
	otherRun int          // and how many rounds in a row gave it
}

// thresholds are rounds in a row, at least 1.
type thresholds struct{ failure, success int }

// What a flap costs. A proxy that turns unhealthy again and again is worse than one that is down: each time doubles the
// good rounds that it needs, and each quiet flapDecay takes one time back.
const (
	flapDecay   = 10 * time.Minute
	mostDoubled = 5 // 32 times
)

// flapsAt is how many flaps still count.
func (s standing) flapsAt(now time.Time) int {
	return max(0, s.flaps-int(now.Sub(s.flapped)/flapDecay))
}

// needed is how many good rounds in a row end an Unhealthy. The first flap is free.
func (s standing) needed(t thresholds, now time.Time) int {
	return t.success << min(mostDoubled, max(0, s.flapsAt(now)-1))
}

// after returns the standing after one more round.
func (s standing) after(f finding, t thresholds, now time.Time) standing {
	s = s.counted(f, now)
	s.own = s.own || f.kind == good || s.bad >= t.failure
	switch {
	case f.kind == bad && s.health != Unhealthy && s.bad >= t.failure:
		return s.fall(f.reason, now)
	case f.kind == good && !s.open && s.healed(t, now):
		return s.turn(Healthy, probe.ReasonHealthy, now)
	default:
		return s.reasoned(f, t)
	}
}

func (s standing) counted(f finding, now time.Time) standing {
	s.last = f
	switch f.kind {
	case good:
		s.good, s.bad, s.failing = s.good+1, 0, time.Time{}
		s.exit = s.exit.after(f.exitIP)
		if f.anonymity != "" {
			s.anonymity = f.anonymity
		}
		return s
	case bad:
		s.good, s.bad = 0, s.bad+1
	case neither:
	}
	if s.failing.IsZero() {
		s.failing = now
	}
	return s
}

// healed reports whether the good rounds suffice. Who has no verdict yet needs one.
func (s standing) healed(t thresholds, now time.Time) bool {
	return s.health == Unknown || s.health == Unhealthy && s.good >= s.needed(t, now)
}

// opened returns the standing after a look whether the proxy serves without credentials. Who does is unhealthy at once and
// stays so until a look says otherwise.
func (s standing) opened(open bool, now time.Time) standing {
	wasOpen := s.open
	s.open, s.own = open, s.own || open
	switch {
	case open && s.health != Unhealthy:
		return s.fall(probe.ReasonOpenProxy, now)
	case open:
		s.reason, s.other, s.otherRun = probe.ReasonOpenProxy, "", 0
	case wasOpen:
		s.good = 1 // the rounds before went through an open proxy
	}
	return s
}

func (s standing) fall(r probe.Reason, now time.Time) standing {
	s.flaps, s.flapped = s.flapsAt(now)+1, now
	return s.turn(Unhealthy, r, now)
}

func (s standing) turn(h Health, r probe.Reason, now time.Time) standing {
	s.health, s.reason, s.since, s.other, s.otherRun = h, r, now, "", 0
	return s
}

// reasoned shows another reason only when it has come as often in a row as it takes to fall: a proxy that fails now this way
// and now that must not write status with each probe (strimzi/strimzi-kafka-operator#13079). A healthy one keeps its reason.
func (s standing) reasoned(f finding, t thresholds) standing {
	if f.kind == good || s.health == Healthy || f.reason == s.reason || s.health == Unhealthy && f.kind != bad {
		s.other, s.otherRun = "", 0
		return s
	}
	if f.reason != s.other {
		s.other, s.otherRun = f.reason, 0
	}
	s.otherRun++
	if s.otherRun >= t.failure {
		s.reason, s.other, s.otherRun = f.reason, "", 0
	}
	return s
}

// exit is the address that targets see.
type exit struct {
	shown string
	next  string // the newest that differs
	run   int    // rounds in a row that gave it
	turns int    // changes of it in a row, each before it had lasted
}

// Another exit address is shown when it has lasted. A gateway that leaves by another address each time has none to show.
const (
	exitLasts = 3
	exitTurns = 3
)

// after returns the exit after an answer that told ip; empty tells nothing.
func (e exit) after(ip string) exit {
	switch {
	case ip == "":
		return e
	case ip == e.shown:
		return exit{shown: ip}
	case e == exit{}:
		return exit{shown: ip}
	case ip == e.next:
		e.run++
	default:
		e.next, e.run, e.turns = ip, 1, min(e.turns+1, exitTurns)
	}
	switch {
	case e.turns < exitTurns && e.run >= exitLasts, e.run >= exitLasts*exitLasts:
		return exit{shown: e.next}
	case e.turns >= exitTurns:
		e.shown = ""
	}
	return e
}
