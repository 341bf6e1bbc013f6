// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// The waits between looks, and the bounds that the rules depend on.
const (
	pollFirst   = time.Second      // after a create or delete, growing with its age to
	pollMax     = 5 * time.Second  //
	driftPoll   = time.Minute      // for a machine at rest
	secretPoll  = 30 * time.Second // for a Secret that is missing: the watch is faster, where there is one
	requeueSoon = 200 * time.Millisecond
	confirmGap  = 5 * time.Second // between two looks that agree that nothing is there, where reads lag
	settle      = time.Minute     // for what no clock or network bounds exactly: skew, a request held up on its way
	deleteAgain = time.Minute     // for an instance that doesn't go
)

// Verb is what a step does.
type Verb string

// The verbs. Create, Repeat and Destroy make one call that changes the cloud.
const (
	Nothing Verb = "Nothing" // the world is as wanted
	Wait    Verb = "Wait"    // for the cloud, or for the clock
	Create  Verb = "Create"  // write the next intent, then create under it
	Repeat  Verb = "Repeat"  // send the create of the open intent again, with its key
	Adopt   Verb = "Adopt"   // write the ledger back for a machine that is ours
	Destroy Verb = "Destroy" // delete one instance
	Release Verb = "Release" // take the finalizer off
)

// Cause is why an instance goes.
type Cause string

// The causes, as the metric proxy_operator_replacements_total has them; CauseDeleted, CauseTwin and CauseSuperseded
// replace nothing.
const (
	CauseDrift      Cause = "drift"      // spec or Secret changed
	CauseMoved      Cause = "moved"      // account or zone is not wanted any more
	CauseRequested  Cause = "requested"  // replace-requested-at
	CauseAge        Cause = "age"        // maxAge
	CauseUnhealthy  Cause = "unhealthy"  // requests don't get through it any more
	CauseBoot       Cause = "boot"       // no request got through it by the boot deadline
	CauseStopped    Cause = "stopped"    // it doesn't run any more
	CauseVanished   Cause = "vanished"   // nobody of ours deleted it
	CauseSuperseded Cause = "superseded" // a newer incarnation was asked for
	CauseTwin       Cause = "twin"       // a doubtful create was answered twice
	CauseDeleted    Cause = "deleted"    // the Proxy is going
)

// Step is the one next thing to do for a Proxy.
type Step struct {
	Do    Verb
	Of    providers.Ref       // Destroy: the instance
	Keep  *providers.Instance // the instance that serves or will
	Cause Cause               // Destroy and Create: why
	Zone  string              // Create: where
	After time.Duration       // when to look again
}

// rule is one line of the decision: when it applies, this is the step.
type rule struct {
	name string
	when func(view) bool
	then func(view) Step
}

// view is a Seen with what most rules ask for worked out once.
type view struct {
	Seen
	keep  *providers.Instance  // the machine that is as wanted
	going []providers.Instance // those beside it that were not told to go yet
}

// decide picks the one next step for a Managed Proxy that isn't being deleted.
func decide(s Seen) Step {
	keep := s.keep()
	return first(managedRules(), view{s, keep, s.unwanted(keep)})
}

// decideDelete picks the one next step for a Managed Proxy that is being deleted and still has our finalizer.
func decideDelete(s Seen) Step {
	return first(deleteRules(), view{s, nil, s.unwanted(nil)})
}

// next is decide or decideDelete.
func next(s Seen) Step {
	if s.Deleting {
		return decideDelete(s)
	}
	return decide(s)
}

// first takes the step of the first rule that applies. The last rule of each list always does.
func first(rules []rule, v view) Step {
	for _, r := range rules {
		if !v.off(Guard(r.name)) && r.when(v) {
			return r.then(v)
		}
	}
	return Step{Do: Wait, After: driftPoll}
}

// same reports whether two steps change the cloud in the same way.
func (a Step) same(b Step) bool { return a.Do == b.Do && a.Of == b.Of }

// poll grows with what it waits for, from 1 s to 5 s, without remembering anything.
func poll(age time.Duration) time.Duration { return min(max(age/5, pollFirst), pollMax) }
