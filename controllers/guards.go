// SPDX-License-Identifier: Apache-2.0

package controllers

// Guard names a precaution of the reconcile loop: a rule of rules.go by its name, or one of the constants below. The
// simulation leaves one out to see that its laws notice (internal/sim/mutant.go); the product has all of them always.
type Guard string

// The precautions that aren't rules.
const (
	GuardLiveRead     Guard = "read live before destroying"
	GuardLiveRepeat   Guard = "read live before a create is sent again"
	GuardKeepServing  Guard = "keep what runs while the inputs are unusable"
	GuardNewest       Guard = "count incarnations from status and tags too"
	GuardSeen         Guard = "an answered create stays open until it is seen, for as long as reads lag"
	GuardOwnCreates   Guard = "a no closes an intent only for the process that wrote it"
	GuardDeadline     Guard = "nothing is sent after the intent's deadline"
	GuardBudget       Guard = "a namespace has a budget for machines that are taken down by choice"
	GuardSlotsRebuilt Guard = "a new process knows who was taken down before it"
	GuardSlotsLive    Guard = "who was taken down before is read live"
	GuardSlotsSeen    Guard = "nobody is taken down before each Proxy had a pass"
	GuardSlotFreed    Guard = "whose successor works gives its slot back"
	GuardHealthHeld   Guard = "many that fall ill at once aren't replaced for it"
	GuardHealthBlamed Guard = "what the newest round doesn't blame isn't replaced for its health"
	GuardBootBackoff  Guard = "the boot deadline doubles"
	GuardFreshList    Guard = "a list from before the last change proves nothing"
	GuardKnownPlaces  Guard = "look in the ledger's and the recorded account too"
	GuardEqualStatus  Guard = "an equal status isn't written"
	GuardLatchLifts   Guard = "other inputs lift the latch"
	GuardFinalizer    Guard = "put a missing finalizer back"
	GuardOldReady     Guard = "an old view doesn't bring its Ready back"
	GuardOwn          Guard = "delete unseen only what was once shown to be the Proxy's"
	GuardStray        Guard = "whose Proxy went in the moment of its finalizer is removed by who asked for it"
	GuardGeneration   Guard = "every status tells of which generation it is"
	GuardSpecCompared Guard = "compare what a machine was made from"
)

// off reports whether a precaution is left out.
func (s Seen) off(g Guard) bool { return s.Unguarded[g] }

func (r *ProxyReconciler) off(g Guard) bool { return r.Unguarded[g] }
