// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// managedRules are the rules for a Managed Proxy that isn't being deleted, in order: the first that applies wins. They
// are drawn in docs/architecture.md, and each has its cases in TestDecide.
func managedRules() []rule {
	return []rule{
		{"left over beside the machine to keep",
			func(v view) bool { return v.keep != nil && len(v.going) > 0 },
			func(v view) Step { return v.destroy(v.cause(v.going[0], v.keep)) }},
		{"ledger lost",
			func(v view) bool { return v.keep != nil && v.ledgerLost(v.keep) },
			func(v view) Step { return Step{Do: Adopt, Keep: v.keep, After: pollFirst} }},
		{"runs as wanted",
			func(v view) bool { return v.keep != nil && v.keep.State == providers.StateRunning },
			func(v view) Step {
				return Step{Do: Nothing, Keep: v.keep, After: v.untilDoom(*v.keep, v.untilPlanned(driftPoll))}
			}},
		{"boots",
			func(v view) bool { return v.keep != nil },
			func(v view) Step {
				return Step{Do: Wait, Keep: v.keep, After: v.untilDoom(*v.keep, poll(v.age(*v.keep)))}
			}},

		// From here on there is no machine to keep.
		{"inputs unusable", // what can't be made again must not be taken down
			func(v view) bool { return v.Want.Problem != nil },
			func(v view) Step { return Step{Do: Wait, After: v.Want.Problem.After} }},
		{"serves, and its successor is held back", // nor what would fail to be made again
			func(v view) bool { return v.held() && v.serves() },
			func(v view) Step { return v.spare(v.Calls.HoldUntil.Sub(v.Now)) }},
		{"serves, and its create is open", // or its successor would have to wait for the clock, with nothing serving
			func(v view) bool { return v.open() && v.serves() },
			func(v view) Step { return v.spare(pollMax) }},
		{"not as wanted",
			func(v view) bool { return len(v.going) > 0 },
			func(v view) Step { return v.destroy(v.cause(v.going[0], nil)) }},
		{"on its way out",
			func(v view) bool { return len(v.Instances) > 0 },
			func(v view) Step { return Step{Do: Wait, After: poll(v.goingFor()), Cause: CauseSuperseded} }},

		// From here on no look shows a machine.
		{"account not configured",
			func(v view) bool { return v.Blind != "" },
			func(view) Step { return Step{Do: Wait, After: driftPoll} }},
		{"create open, can be sent again",
			func(v view) bool { return v.open() && v.repeatable() },
			func(v view) Step { return Step{Do: Repeat, Zone: v.Intent.Zone} }},
		{"create open",
			func(v view) bool { return v.open() },
			func(v view) Step { return Step{Do: Wait, After: poll(v.Now.Sub(v.Intent.At))} }},
		{"vanished, not proved",
			func(v view) bool { return v.lost() && !v.emptyForSure() },
			func(v view) Step { return Step{Do: Wait, After: v.gap(), Cause: CauseVanished} }},
		{"held back",
			func(v view) bool { return v.held() },
			func(v view) Step { return Step{Do: Wait, After: v.Calls.HoldUntil.Sub(v.Now)} }},
		{"nothing there",
			func(view) bool { return true },
			func(v view) Step { return Step{Do: Create, Zone: v.nextZone(), Cause: v.createCause()} }},
	}
}

// deleteRules are the rules for a Managed Proxy that is being deleted. Nothing is permanent on the way out: every wait
// ends in another look.
func deleteRules() []rule {
	return []rule{
		{"abandoned",
			func(v view) bool { return v.Abandon },
			func(view) Step { return Step{Do: Release, Cause: CauseDeleted} }},
		{"machine there",
			func(v view) bool { return len(v.going) > 0 },
			func(v view) Step { return v.destroy(CauseDeleted) }},
		{"on its way out",
			func(v view) bool { return len(v.Instances) > 0 },
			func(v view) Step { return Step{Do: Wait, After: poll(v.goingFor()), Cause: CauseDeleted} }},
		{"account not configured",
			func(v view) bool { return v.Blind != "" },
			func(view) Step { return Step{Do: Wait, After: driftPoll, Cause: CauseDeleted} }},
		{"recorded, and never told to go", // reads may lie about it; a Delete of the very thing is asked for in any case
			func(v view) bool { return v.recordedOwn() && !v.deleteAccepted(v.Recorded) },
			func(v view) Step { return Step{Do: Destroy, Of: v.Recorded, Cause: CauseDeleted} }},
		{"create open",
			func(v view) bool { return v.open() },
			func(v view) Step { return Step{Do: Wait, After: poll(v.Now.Sub(v.Intent.At)), Cause: CauseDeleted} }},
		{"gone, not proved",
			func(v view) bool { return !v.emptyForSure() },
			func(v view) Step { return Step{Do: Wait, After: v.gap(), Cause: CauseDeleted} }},
		{"gone",
			func(view) bool { return true },
			func(view) Step { return Step{Do: Release, Cause: CauseDeleted} }},
	}
}

// destroy is the step that deletes the first of those that are to go.
func (v view) destroy(c Cause) Step {
	return Step{Do: Destroy, Of: v.going[0].Ref, Keep: v.keep, Cause: c}
}

// spare is the step that lets a machine serve a while longer, though another is wanted.
func (v view) spare(after time.Duration) Step {
	return Step{Do: Wait, Keep: &v.going[0], Cause: v.cause(v.going[0], nil), After: after}
}
