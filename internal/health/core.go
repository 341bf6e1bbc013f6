// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// core keeps the books. It has no clock and no lock: who calls it says what time it is, and calls it alone.
type core struct {
	seed         uint64
	stretch      float64
	gap          time.Duration // between two rounds at one port of a host
	hostMost     int           // rounds at a time at one host; 0: no bound
	workers      int           // rounds at a time; 0: no bound
	openEvery    time.Duration
	controlEvery time.Duration

	subjects  map[string]*subject
	witnesses map[targetKey]*witness
	hosts     map[string]*host
	ports     map[place]*port
	pools     map[string]*pool
	poolList  []*pool // in the order of their first members
	queue     queue
	epochs    uint64
	first     time.Time // not before this is the next first round of a new subject

	busy     int // rounds and control probes under way
	slow     int // of these, rounds of those that aren't sound
	controls int // and control probes
	parked   [ranks][]*subject
	pending  []*witness // whose control probes wait for a worker

	news []news
}

// subject is one that is watched. Another is made when anything about it changes, so that what the old one still has under
// way is told from the new one by its epoch (scrapoxy/scrapoxy#47).
type subject struct {
	Subject
	standing
	epoch     uint64
	witnesses []*witness // one per target
	port      *port
	entry     entry
	due       time.Time // when the next round is wanted; the queue may have it later
	rounds    uint64
	slow      bool      // the last round took long
	openAt    time.Time // the next look for an open proxy
	gone      bool
}

// host bounds the rounds at one machine.
type host struct {
	name    string
	users   int
	busy    int // rounds under way
	waiting []*subject
}

// port paces the rounds at one port of a host: behind a gateway each is a proxy of its own.
type port struct {
	place
	host    *host
	users   int
	busy    bool
	free    time.Time // not before this
	waiting []*subject
}

type place struct {
	host string
	port int
}

// job is one round to do, or with control one control probe.
type job struct {
	control   *witness
	subject   Subject
	epoch     uint64
	witnesses []*witness
	port      *port
	rank      rank
	doubted   bool // a failure could change the verdict: ask for a control
	open      bool // look for an open proxy too
	due       time.Time
	started   time.Time
}

// round is what a job found.
type round struct {
	outcomes []probe.Outcome // of the first targets; the others weren't needed
	open     *probe.Outcome
}

// news is one change to tell. With a pool it is about that.
type news struct {
	uid, pool string
	held      bool
	verdict   Verdict
	detail    string
}

func newCore() *core {
	return &core{
		subjects: map[string]*subject{}, witnesses: map[targetKey]*witness{}, hosts: map[string]*host{}, ports: map[place]*port{},
		pools: map[string]*pool{},
	}
}

// watch begins to watch, or goes on in another way. The same again does nothing and reports false.
func (c *core) watch(in Subject, now time.Time) bool {
	in = in.withDefaults()
	old := c.subjects[in.UID]
	if old != nil && sameSubject(&old.Subject, &in) && !old.learns(&in) {
		return false
	}
	c.epochs++
	s := &subject{Subject: in, epoch: c.epochs}
	s.entry.subject = s
	first := c.begin(s, old, now)
	c.link(s, now)
	if old != nil {
		c.unlink(old, now)
	}
	c.again(s, first, now)
	return true
}

// firstGap is the time between two first rounds: a fleet that comes all at once isn't probed all at once.
const firstGap = 5 * time.Millisecond

// begin gives s what is known of it, and returns when its first round is due.
func (c *core) begin(s, old *subject, now time.Time) time.Time {
	s.standing = standing{health: Unknown, since: now}
	switch {
	case old != nil && sameMachine(&old.Subject, &s.Subject):
		s.standing = old.standing
		if old.learns(&s.Subject) {
			s.recall(now)
		}
		s.rounds, s.slow = old.rounds, old.slow
		return old.due
	case old == nil && s.Prior != "" && s.Prior != Unknown:
		s.recall(now)
		return now.Add(part(s.Interval, share(c.seed, s.UID, 0)))
	}
	if c.first.Before(now) {
		c.first = now
	}
	at := c.first
	c.first = at.Add(firstGap)
	return at
}

// recall takes what status says.
func (s *subject) recall(now time.Time) {
	s.health, s.reason, s.exit, s.since = s.Prior, s.PriorReason, exit{shown: s.PriorExitIP}, now
	s.open = s.PriorReason == probe.ReasonOpenProxy && s.CheckOpen
}

// learns reports whether in says of the machine what isn't known: the process began with an older view of status, and its
// own rounds have decided nothing yet.
func (s *subject) learns(in *Subject) bool {
	return !s.own && in.Prior != "" && in.Prior != Unknown && in.Prior != s.health && sameMachine(&s.Subject, in)
}

// forget ends the watch. What is under way is dropped.
func (c *core) forget(uid string, now time.Time) {
	if s := c.subjects[uid]; s != nil {
		delete(c.subjects, uid)
		c.unlink(s, now)
	}
}

// result takes what a job found at a time.
func (c *core) result(j *job, r round, now time.Time) {
	c.finish(j, now)
	s := c.subjects[j.subject.UID]
	switch {
	case s == nil || s.epoch != j.epoch:
		return
	case len(r.outcomes) == 0:
		c.again(s, now.Add(s.Interval), now)
		return
	}
	was := s.standing
	s.slow = now.Sub(j.started) >= s.Timeout/2
	s.standing = s.after(c.find(s, j, r.outcomes, now), thresholds{failure: s.FailureThreshold, success: s.SuccessThreshold}, now)
	if r.open != nil {
		c.opened(s, *r.open, now)
	}
	for i, o := range r.outcomes {
		w := s.witnesses[i]
		if o.Fault == probe.FaultNone && w.got(now) {
			c.queue.put(&w.entry, now)
		}
		if w.users > 1 {
			w.vote(vote{who: s.epoch, pool: s.Pool, at: now, how: castOf(o)})
		}
	}
	c.tell(s, was, now)
	s.rounds++
	c.again(s, j.due.Add(c.period(s, was.health, now)), now)
}

// period is the time to the next round. Who turns healthy takes a place of its own in the interval: a fleet that has become
// healthy at once would be probed at once ever after.
func (c *core) period(s *subject, was Health, now time.Time) time.Duration {
	every, x := period(s.standing, s.Interval, c.stretch, now), share(c.seed, s.UID, s.rounds)
	if s.health == Healthy && was != Healthy {
		soonest := hurry(s.Interval)
		return soonest + part(every-soonest, x)
	}
	return jittered(every, x)
}

// again plans the next round. One whose time has passed already is due now, once.
func (c *core) again(s *subject, at, now time.Time) {
	if at.Before(now) {
		at = now
	}
	s.due = at
	c.queue.put(&s.entry, at)
}

// find judges a round.
func (c *core) find(s *subject, j *job, outcomes []probe.Outcome, now time.Time) finding {
	since := s.failing
	if since.IsZero() {
		since = j.started
	}
	blames := make([]blame, len(outcomes))
	for i, o := range outcomes {
		w := j.witnesses[i]
		blames[i] = blameFor(o, evidence{
			control: w.control(), reached: w.reached || w.succeeded, crowd: w.crowd(s.epoch, s.Pool, since), others: w.users - 1,
			failing: now.Sub(since), wait: 2 * s.Interval,
		})
	}
	return judge(outcomes, blames, s.Quorum)
}

// opened takes the look for an open proxy. One that came to nothing is repeated sooner, though not with each round: it may
// cost a timeout.
func (c *core) opened(s *subject, o probe.Outcome, now time.Time) {
	switch {
	case o.Reason == probe.ReasonOpenProxy:
		s.standing = s.standing.opened(true, now)
		s.openAt = time.Time{}
	case o.Fault == probe.FaultNone:
		s.standing = s.standing.opened(false, now)
		s.openAt = now.Add(c.openEvery)
	default:
		s.openAt = now.Add(c.openEvery / 10)
	}
}

// tell notes what has changed for others.
func (c *core) tell(s *subject, was standing, now time.Time) {
	if s.health == was.health && s.reason == was.reason && s.exit.shown == was.exit.shown {
		return
	}
	c.news = append(c.news, news{uid: s.UID, verdict: s.verdict(), detail: s.last.detail})
	if s.health == Unhealthy && was.health != Unhealthy {
		if p := c.pools[s.Pool]; p.fall(s.UID, now) {
			c.news = append(c.news, news{pool: p.name, held: true})
		}
	}
}

func (s *subject) verdict() Verdict {
	return Verdict{
		UID: s.UID, Incarnation: s.Incarnation, Health: s.health, Reason: s.reason,
		ExitIP: s.exit.shown, Anonymity: s.anonymity, Since: s.since, Hearsay: !s.own, Doubted: s.health != Healthy && !s.open && s.last.kind != bad,
	}
}

// controlled takes the outcome of a control probe.
func (c *core) controlled(w *witness, o probe.Outcome, now time.Time) {
	w.checked, w.up = now, o.Fault == probe.FaultNone
	w.succeeded = w.succeeded || w.up
	if w.users > 0 {
		c.queue.put(&w.entry, now.Add(c.controlEvery))
	}
}
