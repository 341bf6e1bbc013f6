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
	h := c.hosts[s.Proxy.Host]
	if h == nil {
		h = &host{name: s.Proxy.Host}
		c.hosts[h.name] = h
	}
	h.users++
	s.host = h
	p := c.pools[s.Pool]
	if p == nil {
		p = &pool{name: s.Pool}
		c.pools[p.name] = p
		c.poolList = append(c.poolList, p)
	}
	fallen := s.health == Unhealthy && c.subjects[s.UID] == nil
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
	s.host.users--
	c.drop(s.host)
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

// drop forgets a host that nobody uses. While a round is under way there it must be remembered.
func (c *core) drop(h *host) {
	if h.users == 0 && !h.busy {
		delete(c.hosts, h.name)
	}
}

// start returns what is to be done now, and counts it as under way: each job must be given to result or abandon.
func (c *core) start(now time.Time) []*job {
	for _, p := range c.poolList {
		if p.step(now) {
			c.news = append(c.news, news{pool: p.name, held: p.held})
		}
	}
	var jobs []*job
	for c.workers == 0 || c.busy < c.workers {
		e := c.queue.first()
		if e == nil || e.at.After(now) {
			break
		}
		c.queue.take(e)
		if j := c.take(e, now); j != nil {
			c.busy++
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// take makes a job of what has come up, unless it must wait for its host or for others that fail.
func (c *core) take(e *entry, now time.Time) *job {
	if w := e.witness; w != nil {
		return &job{control: w, due: e.at, started: now}
	}
	s, h := e.subject, e.subject.host
	ailing := s.health != Healthy || s.bad > 0
	switch {
	case h.busy:
		h.waiting = append(h.waiting, s)
		return nil
	case now.Before(h.free):
		c.queue.put(e, h.free)
		return nil
	case ailing && c.workers > 0 && c.ailing >= c.ailingMost():
		c.parked = append(c.parked, s)
		return nil
	}
	h.busy = true
	if ailing {
		c.ailing++
	}
	return &job{
		subject: s.Subject, epoch: s.epoch, witnesses: s.witnesses, host: h, ailing: ailing,
		doubted: s.health != Unhealthy, open: s.CheckOpen && !now.Before(s.openAt), due: s.due, started: now,
	}
}

// ailingMost is how many workers may wait for proxies that may not answer: a dead part of the fleet must not delay the
// verdicts on the rest.
func (c *core) ailingMost() int { return max(1, c.workers*3/4) }

// finish frees what a job held.
func (c *core) finish(j *job, now time.Time) {
	c.busy--
	if j.control != nil {
		return
	}
	h := j.host
	h.busy, h.free = false, now.Add(c.gap)
	if s := next(&h.waiting); s != nil {
		c.queue.put(&s.entry, h.free)
	}
	c.drop(h)
	if !j.ailing {
		return
	}
	c.ailing--
	if s := next(&c.parked); s != nil {
		c.queue.put(&s.entry, now)
	}
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
