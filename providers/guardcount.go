// SPDX-License-Identifier: Apache-2.0

package providers

import "time"

// instanceCount knows how many machines of ours the account holds: by the cloud's own list, since a count from memory
// forgets at every restart (scrapoxy/scrapoxy#46), and by the creates that the list can't show yet.
type instanceCount struct {
	listedAt time.Time      // when the newest complete list began; zero: there was none
	names    map[string]int // of its genuine instances, to how many have them
	total    int
	sent     map[string]*sentCreate // by name
}

// sentCreate is a create whose machine counts until a list shows it, or one that began late enough doesn't.
type sentCreate struct {
	open  int       // calls without an answer
	until time.Time // when a machine that isn't listed isn't there; zero: every answer so far was a certain no
}

// listed takes over a complete list that began at the given time. One that is older than the newest tells nothing.
func (n *instanceCount) listed(began time.Time, sel Selector, list []Instance) {
	if began.Before(n.listedAt) {
		return
	}
	n.listedAt, n.total, n.names = began, 0, make(map[string]int, len(list))
	for _, i := range list {
		if sel.Matches(i.Tags) && i.Genuine() {
			n.total++
			n.names[i.Name]++
		}
	}
	for name, s := range n.sent {
		if s.open == 0 && (n.names[name] > 0 || began.After(s.until)) {
			delete(n.sent, name)
		}
	}
}

// has reports whether a create of the name makes no further machine.
func (n *instanceCount) has(name string) bool { return n.names[name] > 0 || n.sent[name] != nil }

// with counts the machines, those that may be on their way, and those that others than owner were admitted for.
func (n *instanceCount) with(admitted map[string]*admission, owner string) int {
	count := n.total
	for name := range n.sent {
		if n.names[name] == 0 {
			count++
		}
	}
	for by, a := range admitted {
		if by != owner && !n.has(a.name) {
			count++
		}
	}
	return count
}

func (n *instanceCount) send(name string) {
	s := n.sent[name]
	if s == nil {
		s = &sentCreate{}
		n.sent[name] = s
	}
	s.open++
}

// answer notes what came of a create. A certain no takes back that call alone: an earlier one of the same name may still
// have made the machine.
func (n *instanceCount) answer(c *call, class ErrorClass, now time.Time, t Traits) {
	name := c.create.Key.Name()
	s := n.sent[name]
	if s == nil { // nothing is counted without a limit
		return
	}
	s.open--
	until := time.Time{}
	switch class {
	case "":
		until = now.Add(t.Lag)
	case Ambiguous:
		until = c.sentAt.Add(t.Deadline() + t.Lag)
	case Transient, Throttled, QuotaExceeded, Capacity, Denied, Permanent, NotFound:
	}
	if until.After(s.until) {
		s.until = until
	}
	if s.open == 0 && s.until.IsZero() {
		delete(n.sent, name)
	}
}
