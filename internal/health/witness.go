// SPDX-License-Identifier: Apache-2.0

package health

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// targetKey tells targets apart. Pools of roots are compared by identity.
type targetKey struct {
	url            string
	expect         string
	judge, trusted bool
	roots          *x509.CertPool
}

func keyOf(t probe.Target) targetKey {
	k := targetKey{url: t.URL, judge: t.Judge, trusted: t.Trusted, roots: t.RootCAs}
	if len(t.ExpectStatus) > 0 {
		k.expect = fmt.Sprint(t.ExpectStatus)
	}
	return k
}

// witness is what is known of one target beside the subject at hand: its control probe, and how others fare.
type witness struct {
	key     targetKey
	target  probe.Target
	timeout time.Duration // of its control probe
	users   int           // subjects
	idle    time.Time     // since when there are none
	entry   entry
	turn    chan struct{} // held by who runs the control probe
	parked  bool          // its control probe waits for a worker

	reached   bool      // a proxy has got through to the target, ever
	succeeded bool      // the control probe, ever
	up        bool      // when it was last tried,
	checked   time.Time // which was at this time; zero: never

	votes []vote // the newest of each subject, oldest first
}

// vote is how far the newest round of one subject came with a target.
type vote struct {
	who  uint64 // the subject's epoch
	pool string
	at   time.Time
	how  cast
}

type cast int

const (
	through   cast = iota // the target answered
	stuck                 // the proxy answered, the target didn't
	unreached             // the proxy didn't answer
	refused               // the proxy itself refused, which says nothing of the target
)

// mostVotes bounds what is kept for a target. The newest say enough: with more subjects than this they are also the freshest.
const mostVotes = 64

func castOf(o probe.Outcome) cast {
	switch {
	case o.Fault == probe.FaultNone:
		return through
	case o.Fault == probe.FaultTarget, stageOf(o.Reason) == beyond:
		return stuck
	case stageOf(o.Reason) == toProxy:
		return unreached
	default:
		return refused
	}
}

// vote puts the newest vote of a subject in the place of its last.
func (w *witness) vote(v vote) {
	for i := range w.votes {
		if w.votes[i].who == v.who {
			w.votes = append(w.votes[:i], w.votes[i+1:]...)
			break
		}
	}
	if len(w.votes) == mostVotes {
		w.votes = append(w.votes[:0], w.votes[1:]...)
	}
	w.votes = append(w.votes, v)
}

// controlSoon is how long a control probe that has never succeeded is believed when a proxy gets through: the target may have
// come up since, and with a control its next outage is told from its proxies' failures.
const controlSoon = 5 * time.Second

// got notes that a proxy got through to the target, and reports whether the control probe is worth another try.
func (w *witness) got(now time.Time) bool {
	w.reached = true
	return !w.succeeded && !w.checked.IsZero() && now.Sub(w.checked) >= controlSoon
}

func (w *witness) control() control {
	switch {
	case !w.succeeded:
		return noControl
	case w.up:
		return controlUp
	default:
		return controlDown
	}
}

// downLasts is how long a failed control probe is believed: in an outage everybody asks, and the answer is the same.
const downLasts = time.Second

// wanted reports whether a control probe can tell what isn't known since a time. One that has never succeeded is repeated by
// plan alone.
func (w *witness) wanted(since time.Time, planned bool) bool {
	if w.control() == controlDown {
		since = since.Add(-downLasts)
	}
	return w.checked.IsZero() || w.checked.Before(since) && (planned || w.succeeded)
}

// crowd counts how other subjects fared with a target.
type crowd struct {
	through, stuck, unreached, refused int
	stuckPools, unreachedPools         int // different pools among these and the subject that asks
}

// crowd counts the votes of others since a time.
func (w *witness) crowd(who uint64, pool string, since time.Time) crowd {
	var c crowd
	stuckIn, unreachedIn := map[string]bool{pool: true}, map[string]bool{pool: true}
	for _, v := range w.votes {
		if v.who == who || v.at.Before(since) {
			continue
		}
		switch v.how {
		case through:
			c.through++
		case stuck:
			c.stuck++
			stuckIn[v.pool] = true
		case unreached:
			c.unreached++
			unreachedIn[v.pool] = true
		case refused:
			c.refused++
		}
	}
	c.stuckPools, c.unreachedPools = len(stuckIn), len(unreachedIn)
	return c
}

func (c crowd) size() int { return c.through + c.stuck + c.unreached + c.refused }

// up reports whether what failed at that stage works for most others, so that it is this proxy's own fault.
func (c crowd) up(at stage) bool {
	if at == toProxy {
		return c.through+c.stuck+c.refused > c.unreached
	}
	return c.through > c.stuck
}

// down reports whether it fails for most others too, and in more than one pool: a pool that breaks as a whole is no sign of
// a broken target.
func (c crowd) down(at stage) bool {
	if at == toProxy {
		return c.unreached > c.through+c.stuck+c.refused && c.unreachedPools > 1
	}
	return c.stuck > c.through && c.stuckPools > 1
}
