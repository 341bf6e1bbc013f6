// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"cmp"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// A place is lost when its caller doesn't come back this long after its turn. It is looked for once per sweepEvery.
const (
	placeGrace = 10 * time.Second
	sweepEvery = time.Second
)

// enough forgives the bucket its rounding: it counts in floating point.
const enough = 1e-6

// queue is the token bucket of one family of calls, and the line of those that came when it was empty. Without the line
// all who were refused would come back at once, and the newest would be as likely to go as the oldest.
type queue struct {
	bucket *rate.Limiter
	lines  [2][]*place // those that stand first, and the others; each in the order in which they came
	places map[string]*place
	serial uint64
	swept  time.Time
}

// place is one caller's in the line.
type place struct {
	key    string
	line   int
	serial uint64
	due    time.Time // when it was told to come back
}

func newQueue(l Limits) *queue {
	return &queue{bucket: rate.NewLimiter(rate.Limit(l.CallsPerSecond), l.Burst), places: map[string]*place{}}
}

// charge takes a token, which may not be there yet.
func (q *queue) charge(now time.Time) { q.bucket.ReserveN(now, 1) }

// ask takes a token for the caller and returns 0, or keeps a place for it and returns when its turn comes. The caller
// goes if the bucket has a token for it and for each one before it in the line; so who is late for its turn holds up
// nobody, and still has its token when it comes. A full bucket lets anyone go, since it loses what it doesn't give.
// room: there is a slot for the call.
func (q *queue) ask(now time.Time, key string, first, room bool) time.Duration {
	q.sweep(now)
	p := q.places[key]
	if p == nil {
		p = &place{key: key, line: 1, serial: q.serial}
		if first {
			p.line = 0
		}
	}
	before := q.before(p)
	tokens, perSecond := q.bucket.TokensAt(now), float64(q.bucket.Limit())
	full := tokens+enough >= float64(q.bucket.Burst())
	if room && (full || tokens+enough >= float64(before+1)) {
		q.drop(p)
		q.charge(now)
		return 0
	}
	wait := seconds(max(0, float64(before+1)-tokens) / perSecond)
	if !room {
		wait = max(wait, busyWait+seconds(float64(before)/perSecond))
	}
	q.keep(p)
	p.due = now.Add(wait)
	return wait
}

// seconds is a duration rounded up to a millisecond, so that the token is there when it has passed.
func seconds(s float64) time.Duration {
	return time.Duration(math.Ceil(s*1000-enough)) * time.Millisecond
}

// find returns where the place is in its line, or would be.
func (q *queue) find(p *place) (int, bool) {
	return slices.BinarySearchFunc(q.lines[p.line], p, func(a, b *place) int { return cmp.Compare(a.serial, b.serial) })
}

// before counts who stands before a place.
func (q *queue) before(p *place) int {
	n, _ := q.find(p)
	if p.line == 1 {
		n += len(q.lines[0])
	}
	return n
}

func (q *queue) keep(p *place) {
	if q.places[p.key] != nil {
		return
	}
	q.places[p.key] = p
	q.lines[p.line] = append(q.lines[p.line], p)
	q.serial++
}

func (q *queue) drop(p *place) {
	if q.places[p.key] == nil {
		return
	}
	delete(q.places, p.key)
	if n, ok := q.find(p); ok {
		q.lines[p.line] = slices.Delete(q.lines[p.line], n, n+1)
	}
}

// sweep takes the places away whose callers didn't come back: their objects are gone, or no longer want the call.
func (q *queue) sweep(now time.Time) {
	if now.Sub(q.swept) < sweepEvery {
		return
	}
	q.swept = now
	for n := range q.lines {
		q.lines[n] = slices.DeleteFunc(q.lines[n], func(p *place) bool {
			late := now.Sub(p.due) > placeGrace
			if late {
				delete(q.places, p.key)
			}
			return late
		})
	}
}
