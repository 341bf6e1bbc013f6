// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// orphanAge is the least age of an orphan: longer than any create is under way (gardener/machine-controller-manager#583).
const orphanAge = 10 * time.Minute

// sightingGap is the least time between the first sweep that found no owner and the one that deletes.
const sightingGap = time.Minute

// orphanState is what the collector takes an instance for.
type orphanState string

const (
	orphanOwned   orphanState = "owned"   // its Proxy exists, or is being worked on
	orphanForeign orphanState = "foreign" // not this operator's business
	orphanYoung   orphanState = "young"   // without an owner, and not old enough
	orphanSighted orphanState = "sighted" // without an owner for the first time
	orphanProven  orphanState = "orphan"
	orphanHeld    orphanState = "held" // an orphan that waits for a person; of metrics alone
)

// suspect is all that is known of one instance when it is judged.
type suspect struct {
	Instance     providers.Instance
	Installation string   // ours
	Watched      []string // nil: all namespaces
	Owned        bool     // not asked for what is foreign
	Now          time.Time
	FirstSeen    time.Time // the sweep of this process that first found no owner; zero: this one
	Lag          time.Duration
	Unguarded    map[Guard]bool
}

// foreign reports whether the instance isn't this operator's: a machine that a person labelled to look like ours,
// another installation's (gardener/machine-controller-manager#718), or one of a namespace that another operator watches.
func (s suspect) foreign() bool {
	t := s.Instance.Tags
	switch {
	case !s.Instance.Genuine():
		return true
	case t.Installation != s.Installation && !s.off(GuardOrphanInstallation):
		return true
	default:
		return s.Watched != nil && !slices.Contains(s.Watched, t.Namespace) && !s.off(GuardOrphanNamespace)
	}
}

// state judges. It has no memory and does no I/O.
func (s suspect) state() orphanState {
	switch {
	case s.foreign():
		return orphanForeign
	case s.Owned:
		return orphanOwned
	case s.age() <= max(orphanAge, 2*s.Lag) && !s.off(GuardOrphanAge):
		return orphanYoung
	case (s.FirstSeen.IsZero() || s.Now.Sub(s.FirstSeen) < sightingGap) && !s.off(GuardTwoSightings):
		return orphanSighted
	default:
		return orphanProven
	}
}

// age is by the cloud's clock; where the cloud doesn't tell when a machine was made, since it was first seen.
func (s suspect) age() time.Duration {
	switch {
	case !s.Instance.CreatedAt.IsZero():
		return s.Now.Sub(s.Instance.CreatedAt)
	case !s.FirstSeen.IsZero():
		return s.Now.Sub(s.FirstSeen)
	default:
		return 0
	}
}

// sweepPlan is what a sweep does about the orphans that it found.
type sweepPlan string

const (
	planReport sweepPlan = "report"
	planDelete sweepPlan = "delete"
	planWait   sweepPlan = "wait" // the next sweep knows more
	planStop   sweepPlan = "stop" // a person must confirm
)

// tally is what one sweep found in one account.
type tally struct {
	Mode      providers.OrphanMode
	Total     int // ours, in watched namespaces
	Orphans   int // but for those that are on their way out
	Sighted   int
	Confirmed bool // a person has agreed to the deletion of all these orphans
	Uncapped  bool // for internal/sim: GuardSweepCap is off
}

// plan decides. Many at once are more likely a loss of Proxies than of machines (gardener/machine-controller-manager#657
// deleted every worker). Those seen for the first time count too: they may be the rest of what has only begun.
func (t tally) plan() sweepPlan {
	switch {
	case t.Mode != providers.OrphansDelete:
		return planReport
	case t.Confirmed, t.Uncapped:
		return planDelete
	case t.tooMany(t.Orphans):
		return planStop
	case t.tooMany(t.Orphans + t.Sighted):
		return planWait
	default:
		return planDelete
	}
}

func (t tally) tooMany(n int) bool { return n > max(1, t.Total/10) }
