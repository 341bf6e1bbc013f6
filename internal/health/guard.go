// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// The correlated-failure guard: when this many of a pool turn unhealthy within the window, it isn't the proxies, and
// replacing them would only burn money. It holds until the window has passed without another.
const (
	guardWindow  = 5 * time.Minute
	guardAtLeast = 5
	guardPercent = 40
)

// guardSettles is how long nobody may have joined before those that were unhealthy before a restart are counted: the first
// to be watched are no pool yet.
const guardSettles = 5 * time.Second

// pool is a group of subjects that fail together when what they share fails.
type pool struct {
	name    string
	members int
	joined  time.Time            // the newest member
	fell    map[string]time.Time // by UID, when it last turned unhealthy within the window
	newest  time.Time            // of these
	recount bool                 // there are some from before a restart
	held    bool
}

// join adds a member. One that status already calls unhealthy counts as fallen now, so that a restart in the middle of an
// outage doesn't let the replacing begin.
func (p *pool) join(uid string, fallen bool, now time.Time) {
	p.members++
	p.joined = now
	if fallen {
		p.note(uid, now)
		p.recount = true
	}
}

// leave takes a member away. A new machine of the same subject doesn't undo the fall of the last.
func (p *pool) leave(uid string, forGood bool) {
	p.members--
	if forGood {
		delete(p.fell, uid)
	}
}

// fall notes that a member has turned unhealthy, and reports whether the pool is held from now on.
func (p *pool) fall(uid string, now time.Time) bool {
	p.note(uid, now)
	return p.hold()
}

func (p *pool) note(uid string, now time.Time) {
	if p.fell == nil {
		p.fell = map[string]time.Time{}
	}
	for u, at := range p.fell {
		if now.Sub(at) >= guardWindow {
			delete(p.fell, u)
		}
	}
	p.fell[uid], p.newest = now, now
}

func (p *pool) hold() bool {
	if p.held || len(p.fell) < guardAtLeast || len(p.fell)*100 <= p.members*guardPercent {
		return false
	}
	p.held = true
	return true
}

// next is when step is to be called; zero: not at all.
func (p *pool) next() time.Time {
	switch {
	case p.recount:
		return p.joined.Add(guardSettles)
	case p.held:
		return p.newest.Add(guardWindow)
	default:
		return time.Time{}
	}
}

// step does what is due: it counts those from before a restart, or ends a hold. It reports whether held has changed.
func (p *pool) step(now time.Time) bool {
	at := p.next()
	switch {
	case at.IsZero() || now.Before(at):
		return false
	case p.recount:
		p.recount = false
		return p.hold()
	default:
		p.held, p.fell = false, nil
		return true
	}
}
