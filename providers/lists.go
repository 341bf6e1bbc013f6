// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Snapshot is one complete list of an installation's instances in one account.
type Snapshot struct {
	// StartedAt is when the list was asked for. What it doesn't show may have come since: it proves absence only before.
	StartedAt time.Time
	owned     map[string][]Instance
}

// Of returns the instances of a Proxy, by its UID. They are the snapshot's own: don't change them.
func (s *Snapshot) Of(uid string) []Instance { return s.owned[uid] }

// Lister keeps the newest list of one account, and shares it among all its Proxies: a fleet at rest costs one list a
// tick and not one call a Proxy (kubernetes-sigs/cluster-api-provider-aws#1764). Its methods may be called from several
// goroutines at once. None of them waits for another's list.
type Lister struct {
	provider Provider
	selector Selector
	clock    clock.PassiveClock
	changed  func(Tags)

	mu      sync.Mutex
	newest  *Snapshot
	listing bool
}

// NewLister makes the Lister of one account. changed, which may be nil, is told of each owner whose instances differ from
// those of the list before; it must not call the Lister.
func NewLister(p Provider, installation string, c clock.PassiveClock, changed func(Tags)) *Lister {
	return &Lister{provider: p, selector: Selector{Installation: installation}, clock: c, changed: changed}
}

// busyRetry is when to come again while another's list is under way.
const busyRetry = time.Second

// Since returns a list that began at notBefore or later, and lists if there is none. While another caller lists, the
// answer is Throttled, code Busy.
func (l *Lister) Since(ctx context.Context, notBefore time.Time) (*Snapshot, error) {
	s, mine := l.take(notBefore)
	switch {
	case s != nil:
		return s, nil
	case !mine:
		return nil, &Error{Class: Throttled, Op: "list instances", Code: CodeBusy, RetryAfter: busyRetry, Held: true}
	}
	return l.list(ctx)
}

// Recent returns a list that is at most age old, or twice that where a newer one is on its way or held back by a guard:
// for whoever only wants to see that nothing has changed.
func (l *Lister) Recent(ctx context.Context, age time.Duration) (*Snapshot, error) {
	now := l.clock.Now()
	s, err := l.Since(ctx, now.Add(-age))
	if err == nil || !IsHeld(err) {
		return s, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest.within(now.Add(-2*age), now) {
		return l.newest, nil
	}
	return nil, err
}

// within reports whether the list began in that time. One that began after now was dated by a clock that has jumped
// back; nobody can tell how old it is.
func (s *Snapshot) within(from, now time.Time) bool {
	return s != nil && !s.StartedAt.Before(from) && !s.StartedAt.After(now)
}

// take returns the newest list if it is new enough, or whether the caller is the one to list now.
func (l *Lister) take(notBefore time.Time) (s *Snapshot, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest.within(notBefore, l.clock.Now()) {
		return l.newest, false
	}
	if l.listing {
		return nil, false
	}
	l.listing = true
	return nil, true
}

// list asks the cloud, keeps the answer, and tells of what changed. A list that fails leaves the one before.
func (l *Lister) list(ctx context.Context) (*Snapshot, error) {
	defer func() {
		l.mu.Lock()
		l.listing = false
		l.mu.Unlock()
	}()
	s := &Snapshot{StartedAt: l.clock.Now(), owned: map[string][]Instance{}}
	all, err := l.provider.ListByTag(ctx, l.selector)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if l.selector.Matches(i.Tags) && i.Genuine() { // never trust a filter with what may be deleted
			s.owned[i.Tags.OwnerUID] = append(s.owned[i.Tags.OwnerUID], i)
		}
	}
	for _, is := range s.owned {
		slices.SortFunc(is, func(a, b Instance) int { return cmp.Compare(a.Ref.Path, b.Ref.Path) })
	}
	l.mu.Lock()
	before := l.newest
	l.newest = s
	l.mu.Unlock()
	if l.changed != nil && before != nil {
		for _, owner := range s.since(before) {
			l.changed(owner)
		}
	}
	return s, nil
}

// since lists, in order, the owners whose instances differ from those of an older list.
func (s *Snapshot) since(older *Snapshot) []Tags {
	var owners []Tags
	for uid, is := range s.owned {
		if !slices.EqualFunc(is, older.owned[uid], same) {
			owners = append(owners, is[0].Tags)
		}
	}
	for uid, is := range older.owned {
		if len(s.owned[uid]) == 0 {
			owners = append(owners, is[0].Tags)
		}
	}
	slices.SortFunc(owners, func(a, b Tags) int { return cmp.Compare(a.OwnerUID, b.OwnerUID) })
	return owners
}

// same compares two reads of an instance. Times are equal that mean the same, however they were written.
func same(a, b Instance) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) {
		return false
	}
	b.CreatedAt, b.Detail = a.CreatedAt, a.Detail // words change from look to look, and change nothing
	return a == b
}
