// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"
)

// link counts s at its targets, its host and its pool, and makes it the one of its UID.
func (c *core) link(s *subject, now time.Time) {
	for _, t := range s.Targets {
		k := keyOf(t)
		w := c.witnesses[k]
		if w == nil {
			c.dropIdle(now)
			w = &witness{key: k, target: t, turn: make(chan struct{}, 1)}
			w.entry.witness = w
			c.witnesses[k] = w
		}
		if w.users == 0 {
			c.queue.put(&w.entry, now)
		}
		w.users, w.timeout = w.users+1, s.Timeout
		s.witnesses = append(s.witnesses, w)
	}
	s.port = c.portOf(place{s.Proxy.Host, s.Proxy.Port})
	p := c.pools[s.Pool]
	if p == nil {
		p = &pool{name: s.Pool}
		c.pools[p.name] = p
		c.poolList = append(c.poolList, p)
	}
	old := c.subjects[s.UID]
	fallen := s.health == Unhealthy && (old == nil || old.health != Unhealthy)
	p.join(s.UID, fallen, now)
	c.subjects[s.UID] = s
}

// unlink undoes link for one that is forgotten or has a successor.
func (c *core) unlink(s *subject, now time.Time) {
	s.gone = true
	c.queue.take(&s.entry)
	for _, w := range s.witnesses {
		if w.users--; w.users == 0 {
			c.queue.take(&w.entry)
			w.idle = now
		}
	}
	s.port.users--
	s.port.host.users--
	c.nudge(s.port, now) // it may have been the one whose turn it was
	c.drop(s.port)
	p, next := c.pools[s.Pool], c.subjects[s.UID]
	p.leave(s.UID, next == nil || next.Pool != s.Pool)
	if p.members == 0 {
		delete(c.pools, p.name)
		c.poolList = slices.DeleteFunc(c.poolList, func(o *pool) bool { return o == p })
		if p.held {
			c.news = append(c.news, news{pool: p.name})
		}
	}
}

// keepsIdle is how long it is remembered of a target that nobody uses that it could be reached: while the machines of its
// proxies are replaced, an outage of the target must not be taken for theirs.
const keepsIdle = time.Hour

// dropIdle forgets the targets that nobody has used for long.
func (c *core) dropIdle(now time.Time) {
	for k, w := range c.witnesses {
		if w.users == 0 && now.Sub(w.idle) >= keepsIdle {
			delete(c.witnesses, k)
		}
	}
}

// portOf is the port that is paced together, with one user more.
func (c *core) portOf(at place) *port {
	h := c.hosts[at.host]
	if h == nil {
		h = &host{name: at.host}
		c.hosts[h.name] = h
	}
	p := c.ports[at]
	if p == nil {
		p = &port{place: at, host: h}
		c.ports[at] = p
	}
	p.users++
	h.users++
	return p
}

// drop forgets a port and a host that nobody uses. While a round is under way there they must be remembered.
func (c *core) drop(p *port) {
	if p.users == 0 && !p.busy {
		delete(c.ports, p.place)
	}
	if h := p.host; h.users == 0 && h.busy == 0 {
		delete(c.hosts, h.name)
	}
}

// start returns what is to be done now, and counts it as under way: each job must be given to result.
func (c *core) start(now time.Time) []*job {
	for _, p := range c.poolList {
		if p.step(now) {
			c.news = append(c.news, news{pool: p.name, held: p.held})
		}
	}
	var jobs []*job
	for c.workers == 0 || c.busy < c.workers {
		e := c.unpark()
		if e == nil {
			if e = c.queue.first(); e == nil || e.at.After(now) {
				break
			}
			c.queue.take(e)
		}
		if j := c.take(e, now); j != nil {
			c.busy++
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// take makes a job of what has come up, unless it must wait for its port, its host, or others of its rank.
func (c *core) take(e *entry, now time.Time) *job {
	if e.witness != nil {
		return c.takeControl(e, now)
	}
	s, p := e.subject, e.subject.port
	h, r := p.host, s.rank()
	switch {
	case p.busy:
		p.waiting = append(p.waiting, s)
		return nil
	case now.Before(p.free):
		c.queue.put(e, p.free)
		return nil
	case c.hostMost > 0 && h.busy >= c.hostMost:
		h.waiting = append(h.waiting, s)
		return nil
	case !c.spare(r):
		c.parked[r] = append(c.parked[r], s)
		return nil
	}
	p.busy = true
	h.busy++
	if r > sound {
		c.slow++
	}
	return &job{
		subject: s.Subject, epoch: s.epoch, witnesses: s.witnesses, port: p, rank: r,
		doubted: s.health != Unhealthy, open: s.CheckOpen && !now.Before(s.openAt), due: s.due, started: now,
	}
}

func (c *core) takeControl(e *entry, now time.Time) *job {
	w := e.witness
	switch {
	case w.parked: // a place in the line is enough
		return nil
	case c.workers > 0 && c.controls >= c.part(controlPart):
		w.parked = true
		c.pending = append(c.pending, w)
		return nil
	}
	c.controls++
	return &job{control: w, due: e.at, started: now}
}

// rank is in which order rounds get workers when there are too few: those first whose verdict matters most, and that most
// likely don't take long.
type rank int

const (
	sound  rank = iota // healthy, and the last round was good
	shaken             // healthy, and it wasn't: a verdict is near
	fresh              // has no good verdict, but was good last time, or failed at once, or wasn't asked yet
	ailing             // fails, and takes long for it
)

const ranks = int(ailing) + 1

func (s *subject) rank() rank {
	switch good := s.failing.IsZero(); {
	case s.health == Healthy && good:
		return sound
	case s.health == Healthy:
		return shaken
	case good || !s.slow:
		return fresh
	default:
		return ailing
	}
}

// The workers, in eighths. Who hangs must not delay who answers: of a fleet in which hundreds never answer, the verdict on
// one that breaks still comes in time.
const (
	parts       = 8
	controlPart = 1 // for control probes
	shakenPart  = 7 // for all whose rank isn't sound
	freshPart   = 6 // for those whose rank isn't shaken either
	ailingPart  = 4 // for those that are ailing
)

func (c *core) part(eighths int) int { return max(1, c.workers*eighths/parts) }

// spare reports whether a worker is free for a round of the rank.
func (c *core) spare(r rank) bool {
	if c.workers == 0 {
		return true
	}
	switch r {
	case shaken:
		return c.slow < c.part(shakenPart)
	case fresh:
		return c.slow < c.part(freshPart)
	case ailing:
		return c.slow < c.part(ailingPart)
	case sound:
	}
	return true
}

// unpark takes what may go now out of those that had to wait for a worker, the ranks in their order; nil: none.
func (c *core) unpark() *entry {
	for c.controls < c.part(controlPart) && len(c.pending) > 0 {
		w := c.pending[0]
		c.pending = slices.Delete(c.pending, 0, 1)
		w.parked = false
		if w.users > 0 {
			return &w.entry
		}
	}
	for r := range c.parked {
		if len(c.parked[r]) == 0 || !c.spare(rank(r)) {
			continue
		}
		if s := next(&c.parked[r]); s != nil {
			return &s.entry
		}
	}
	return nil
}

// finish frees what a job held.
func (c *core) finish(j *job, now time.Time) {
	c.busy--
	if j.control != nil {
		c.controls--
		return
	}
	if j.rank > sound {
		c.slow--
	}
	p := j.port
	p.busy, p.free = false, now.Add(c.gap)
	p.host.busy--
	c.nudge(p, now)
	c.drop(p)
}

// nudge lets the next ones go that wait for a port, or for its host, where there is room.
func (c *core) nudge(p *port, now time.Time) {
	if !p.busy {
		if s := next(&p.waiting); s != nil {
			c.queue.put(&s.entry, later(p.free, now))
		}
	}
	if h := p.host; h.busy < c.hostMost {
		if s := next(&h.waiting); s != nil {
			c.queue.put(&s.entry, now)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// next takes the first that is still watched.
func next(list *[]*subject) *subject {
	for len(*list) > 0 {
		s := (*list)[0]
		*list = slices.Delete(*list, 0, 1)
		if !s.gone {
			return s
		}
	}
	return nil
}

// wake is when start has something to do next, if nothing is finished before; false: not of itself.
func (c *core) wake() (time.Time, bool) {
	var at time.Time
	if e := c.queue.first(); e != nil && (c.workers == 0 || c.busy < c.workers) {
		at = e.at
	}
	for _, p := range c.poolList {
		if n := p.next(); !n.IsZero() && (at.IsZero() || n.Before(at)) {
			at = n
		}
	}
	return at, !at.IsZero()
}
