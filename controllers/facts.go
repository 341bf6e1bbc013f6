// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// keep is the instance that is what the spec asks for: alive, of the newest incarnation, from the wanted inputs, in a
// wanted place. While the inputs can't be told, whatever runs is kept.
func (s Seen) keep() *providers.Instance {
	newest := s.newest()
	if s.Want.Problem != nil && s.off(GuardKeepServing) {
		return nil
	}
	for _, i := range s.Instances {
		if s.state(i).Alive() && i.Tags.Incarnation == newest && (s.Want.Problem != nil || s.asWanted(i)) {
			return &i
		}
	}
	return nil
}

func (s Seen) asWanted(i providers.Instance) bool {
	return s.Want.inPlace(i) && (!s.Want.drifted(i) || s.off(GuardSpecCompared)) && !s.replaceRequested(i) && s.condemned(i) == ""
}

// newest is the highest incarnation that anything tells of.
func (s Seen) newest() int64 {
	var n int64
	if s.Intent != nil {
		n = s.Intent.Incarnation
	}
	if s.off(GuardNewest) {
		return n
	}
	n = max(n, s.HighWater)
	for _, i := range s.Instances {
		n = max(n, i.Tags.Incarnation)
	}
	return n
}

// unwanted lists the instances to delete beside keep. Those that this process told to go a short time ago are left to
// go; one that is on its way out for whatever reason is told as well, as who told it may have died half way.
func (s Seen) unwanted(keep *providers.Instance) []providers.Instance {
	var out []providers.Instance
	for _, i := range s.Instances {
		if (keep == nil || i.Ref != keep.Ref) && !s.told(i) {
			out = append(out, i)
		}
	}
	return out
}

// state is the instance's, but Deleting for a while after a Delete that was accepted: reads lag behind it.
func (s Seen) state(i providers.Instance) providers.InstanceState {
	if s.told(i) {
		return providers.StateDeleting
	}
	return i.State
}

// told reports whether this process had a Delete of the instance accepted, as long ago as that can take to show.
func (s Seen) told(i providers.Instance) bool {
	return s.Calls.deletedWithin(i.Ref, s.Traits[i.Ref.Account].Lag+deleteAgain, s.Now)
}

func (s Seen) cause(i providers.Instance, keep *providers.Instance) Cause {
	switch {
	case keep != nil && i.Tags.Incarnation == keep.Tags.Incarnation:
		return CauseTwin
	case i.Tags.Incarnation < s.newest(), i.State == providers.StateDeleting:
		return CauseSuperseded
	case !i.State.Alive():
		return CauseStopped
	case !s.Want.inPlace(i):
		return CauseMoved
	case s.Want.drifted(i):
		return CauseDrift
	case s.replaceRequested(i):
		return CauseRequested
	default:
		return cmp.Or(s.condemned(i), CauseRequested)
	}
}

// serves reports whether the next instance to go is the Proxy's newest, and runs: taking it down is a choice.
func (v view) serves() bool {
	return len(v.going) > 0 && v.going[0].State == providers.StateRunning && v.going[0].Tags.Incarnation == v.newest()
}

// ledgerLost reports whether the intent doesn't know of the instance: wiped with the annotations, or copied.
func (s Seen) ledgerLost(keep *providers.Instance) bool {
	return s.Intent == nil || s.Wiped || s.Intent.Incarnation < keep.Tags.Incarnation
}

// open reports whether a create under the intent may still bring an instance that no look has shown. Three things close
// it: the clock; a certain answer to every create, if this process sent them all; being seen, if the cloud keeps create
// tokens (without them, a late call can land in the name that a delete has freed).
func (s Seen) open() bool {
	if s.Intent == nil {
		return false
	}
	t := s.Traits[s.Intent.Account]
	if s.Now.After(s.Intent.At.Add(t.Deadline() + t.Lag + settle)) {
		return false
	}
	seen := slices.ContainsFunc(s.Instances, s.Intent.made)
	if s.Calls.wrote(*s.Intent) && s.Calls.Sent == s.Calls.Answered {
		return s.Calls.Yes && !seen && !s.off(GuardSeen) && !s.Now.After(s.Calls.AnsweredAt.Add(t.Lag))
	}
	return !(seen && t.CreateToken)
}

// repeatable reports whether the create of the open intent may be sent again: only where the cloud makes one instance of
// one key, only before the intent's deadline, never once the instance was seen, and only while it is what is wanted.
func (s Seen) repeatable() bool {
	t := s.Traits[s.Intent.Account]
	seen := max(s.HighWater, s.Calls.Seen) >= s.Intent.Incarnation || (s.Calls.wrote(*s.Intent) && s.Calls.Yes)
	return t.Idempotent() && !s.Wiped && !seen && !s.held() && s.Now.Before(s.Intent.At.Add(t.Deadline())) && s.Want.asked(*s.Intent)
}

// lost reports whether there was an instance that isn't shown any more, or may have been: one that status names, that the
// cloud promised to this process (whatever became of the ledger since), or that the ledger asked for, unless this process
// knows that nothing came of it. The clock that closes an intent may have jumped; a second look makes up for it.
func (s Seen) lost() bool {
	return !s.Recorded.IsZero() || s.Calls.Yes || (s.Intent != nil && !s.refused())
}

// refused reports whether this process sent every create of the intent, and all were answered no.
func (s Seen) refused() bool {
	return s.Calls.wrote(*s.Intent) && s.Calls.Sent == s.Calls.Answered && !s.Calls.Yes
}

// emptyForSure reports whether two looks, far enough apart, agree that nothing is there.
func (s Seen) emptyForSure() bool {
	return !s.Calls.EmptySince.IsZero() && s.Now.Sub(s.Calls.EmptySince) >= s.gap()
}

// gap is how far apart two looks must be to count as two: 0 where reads are exact and a Get of the Proxy's own machine
// agreed with the list. If status names another's machine, no Get did, and one list that lacks a machine would double it.
func (s Seen) gap() time.Duration {
	var lag time.Duration
	for _, t := range s.Traits {
		lag = max(lag, t.Lag)
	}
	if lag == 0 && !s.Foreign {
		return 0
	}
	return max(confirmGap, lag)
}

// recordedOwn reports whether status names an instance that was shown to this process as the Proxy's. What was only ever
// read in status may be somebody else's, whom a Get that lags doesn't show as that.
func (s Seen) recordedOwn() bool {
	return !s.Recorded.IsZero() && (s.Recorded == s.Calls.Own || s.off(GuardOwn)) && !s.Foreign
}

func (s Seen) deleteAccepted(ref providers.Ref) bool {
	_, ok := s.Calls.Deleted[ref]
	return ok
}

func (s Seen) held() bool {
	return s.Calls.HoldInputs == s.Want.Inputs && s.Now.Before(s.Calls.HoldUntil)
}

// replaceRequested compares the request with the time at which the machine was asked for, by the clock that will also
// date the next intent: a request is met once, however the clocks of user, operator and cloud differ.
func (s Seen) replaceRequested(i providers.Instance) bool {
	return !s.ReplaceAt.IsZero() && !s.ReplaceAt.After(s.Now) && s.born(i).Before(s.ReplaceAt)
}

// born is when the machine was asked for. If nobody can tell by our clock, the cloud's may be the later one: a clock that
// was set back doesn't make an old machine of a new one.
func (s Seen) born(i providers.Instance) time.Time {
	if s.Intent == nil || !s.Intent.made(i) || (s.Ahead && i.CreatedAt.After(s.Intent.At)) {
		return i.CreatedAt
	}
	return s.Intent.At
}

// untilPlanned shortens a wait to the time of a replacement that is planned.
func (s Seen) untilPlanned(d time.Duration) time.Duration {
	if s.ReplaceAt.After(s.Now) {
		return min(d, s.ReplaceAt.Sub(s.Now))
	}
	return d
}

// nextZone is the first wanted zone, or the one after that which the last create found full.
func (s Seen) nextZone() string {
	zones := s.Want.Candidates
	switch {
	case len(zones) == 0:
		return ""
	case s.Intent != nil && s.Calls.wrote(*s.Intent) && s.Calls.NoCapacity:
		return zones[(slices.Index(zones, s.Intent.Zone)+1)%len(zones)]
	default:
		return zones[0]
	}
}

// zonesLeft reports whether a zone comes after the one that was just found full, or the round is over.
func (s Seen) zonesLeft(full string) bool {
	i := slices.Index(s.Want.Candidates, full)
	return i >= 0 && i+1 < len(s.Want.Candidates)
}

func (s Seen) createCause() Cause {
	if (!s.Recorded.IsZero() || s.Calls.Yes) && !s.deleteAccepted(s.Recorded) {
		return CauseVanished
	}
	return ""
}

// goingFor is the time since this process asked for the oldest of the instances to go.
func (s Seen) goingFor() time.Duration {
	var d time.Duration
	for _, i := range s.Instances {
		if at, ok := s.Calls.Deleted[i.Ref]; ok {
			d = max(d, s.Now.Sub(at))
		}
	}
	return d
}

func (s Seen) age(i providers.Instance) time.Duration { return s.Now.Sub(s.born(i)) }
