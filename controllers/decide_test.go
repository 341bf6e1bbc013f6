// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		why  string
		seen scene
		want Step
	}{
		"a new Proxy gets its first machine": {
			why: "nothing is there and nothing is on its way", seen: seen(exact).empty(0), want: Step{Do: Create},
		},
		"a new Proxy on a lagging cloud gets its first machine at once": {
			why: "nothing was ever asked for, so no read can be hiding anything", seen: seen(lagging).empty(0), want: Step{Do: Create},
		},
		"a running machine as wanted is left alone": {
			why: "quiet at rest", seen: seen(exact).machine(1).intent(1, time.Hour), want: Step{Do: Nothing},
		},
		"a machine that boots is waited for": {
			why: "provisioning polls", seen: seen(exact).machine(1, in(providers.StateProvisioning)).intent(1, time.Second), want: Step{Do: Wait},
		},
		"a machine without a ledger is adopted": {
			why: "annotation empty -> adopt", seen: seen(exact).machine(1), want: Step{Do: Adopt},
		},
		"a machine that carries no hash is adopted as it is": {
			why: "an operator never rolls a fleet because it was itself exchanged", seen: seen(exact).machine(1, hash("")), want: Step{Do: Adopt},
		},
		"a hash of a version from the future is no drift": {
			why: "an operator that is rolled back must not roll the fleet", seen: seen(exact).machine(1, hash("v9:0")).intent(1, time.Hour), want: Step{Do: Nothing},
		},
		"a drifted machine is destroyed": {
			why: "annotation != hash -> replaceInstance", seen: seen(exact).machine(1, hash("v1:old")).intent(1, time.Hour),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseDrift},
		},
		"a machine in a zone that was taken out of the list is destroyed": {
			why: "an edited zone is another incarnation", seen: seen(exact).zones("b").machine(1, zone("a")).intent(1, time.Hour),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseMoved},
		},
		"a zone merely added to the list moves nothing": {
			why: "preference is for new machines", seen: seen(exact).zones("b", "a").machine(1, zone("a")).intent(1, time.Hour), want: Step{Do: Nothing},
		},
		"a machine in an account that is not wanted any more is destroyed": {
			why:  "the old account is known from the ledger and from status",
			seen: seen(exact).machine(1).intent(1, time.Hour).with(func(s *Seen) { s.Want.Account = "other" }),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseMoved},
		},
		"a stopped machine is destroyed": {
			why: "cattle", seen: seen(exact).machine(1, in(providers.StateStopped)).intent(1, time.Hour),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseStopped},
		},
		"a terminated machine is destroyed": {
			why: "it is still on the books", seen: seen(exact).machine(1, in(providers.StateTerminated)).intent(1, time.Hour),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseStopped},
		},
		"a machine on its way out is waited for": {
			why: "delete before create", seen: seen(exact).machine(1, in(providers.StateDeleting)).intent(1, time.Hour).deleted("m1", time.Second),
			want: Step{Do: Wait, Cause: CauseSuperseded},
		},
		"a machine on its way out that this process didn't tell to go is told": {
			why:  "who told it may have died half way, and nobody would ever end it",
			seen: seen(exact).machine(1, in(providers.StateDeleting)).intent(1, time.Hour), want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseSuperseded},
		},
		"a machine whose delete was accepted is not deleted again while reads lag": {
			why:  "the list still says Running",
			seen: seen(lagging).machine(1, hash("v1:old")).intent(1, time.Hour).deleted("m1", 3*time.Second),
			want: Step{Do: Wait, Cause: CauseSuperseded},
		},
		"a delete that was accepted but came to nothing is asked for again": {
			why:  "clouds lose requests",
			seen: seen(lagging).machine(1, hash("v1:old")).intent(1, time.Hour).deleted("m1", 2*time.Minute),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseDrift},
		},
		"of twins the younger goes": {
			why:  "whoever looks, the same one stays",
			seen: seen(lagging).machine(1, at("z"), created(noon.Add(-2*time.Minute))).machine(1, at("a"), created(noon.Add(-time.Minute))).intent(1, 3*time.Minute),
			want: Step{Do: Destroy, Of: ref("a"), Cause: CauseTwin},
		},
		"of twins of one age the lower locator stays": {
			why: "a total order", seen: seen(lagging).machine(1, at("z")).machine(1, at("a")).intent(1, time.Hour),
			want: Step{Do: Destroy, Of: ref("z"), Cause: CauseTwin},
		},
		"an older incarnation beside the wanted one goes": {
			why: "a late create landed", seen: seen(lagging).machine(1).machine(2).intent(2, time.Hour),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseSuperseded},
		},
		"an older incarnation alone is never taken for the newest": {
			why:  "adopting without comparing the incarnation resurrects what a list still shows",
			seen: seen(lagging).machine(1).intent(2, time.Second).mine(1, 0, false),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseSuperseded},
		},
		"the high-water mark in status counts when the ledger is wiped": {
			why: "incarnations never go back", seen: seen(lagging).machine(1).highWater(2),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseSuperseded},
		},
		"while a create is open nothing else is created": {
			why:  "its answer was lost, and the list may lag",
			seen: seen(lagging).intent(1, 10*time.Second).mine(1, 0, false).empty(time.Second),
			want: Step{Do: Wait},
		},
		"an open create is sent again where one key gives one machine": {
			why: "unique names", seen: seen(exact).intent(1, 10*time.Second).empty(time.Second), want: Step{Do: Repeat},
		},
		"an open create is not sent again after its deadline": {
			why: "whoever reads the ledger counts on it", seen: seen(exact).intent(1, 31*time.Second).empty(time.Second), want: Step{Do: Wait},
		},
		"an open create is not sent again once its machine was seen": {
			why:  "a repeat would make another in the name that was freed",
			seen: seen(exact).intent(1, 10*time.Second).highWater(1).empty(time.Second), want: Step{Do: Wait},
		},
		"an open create of another spec is not sent again": {
			why:  "edited while the create is open",
			seen: seen(exact).intent(1, 10*time.Second).empty(time.Second).with(func(s *Seen) { s.Intent.Hash = "v1:old" }), want: Step{Do: Wait},
		},
		"the clock closes an intent that nothing came of": {
			why: "deadline + lag + settle is over", seen: seen(lagging).intent(1, 141*time.Second).empty(time.Minute), want: Step{Do: Create},
		},
		"a create whose machine this process saw is not sent again": {
			why:  "it was told to go before status named it: simulation, gce,replace@7,crash-before@6",
			seen: seen(tokens).intent(1, time.Second).empty(0).with(func(s *Seen) { s.Calls.Seen = 1 }), want: Step{Do: Wait},
		},
		"the clock alone closes no intent": {
			why:  "it may have jumped between two processes: simulation, do,clock@6:300",
			seen: seen(lagging).intent(1, 5*time.Minute).empty(19 * time.Second), want: Step{Do: Wait, Cause: CauseVanished},
		},
		"a machine that the cloud promised is waited for, though the ledger was wiped": {
			why:  "reads lag behind the promise: simulation, do,wipe@7,rejected@6",
			seen: seen(lagging).intent(1, time.Second).mine(1, 1, true).empty(time.Second).with(func(s *Seen) { s.Intent = nil }), want: Step{Do: Wait, Cause: CauseVanished},
		},
		"the clock keeps an intent open until then": {
			why: "a request can be held up on its way", seen: seen(lagging).intent(1, 139*time.Second).empty(time.Minute), want: Step{Do: Wait},
		},
		"a certain no closes the intent of this process": {
			why: "every create that was sent was answered", seen: seen(lagging).intent(1, time.Second).mine(1, 1, false).empty(0), want: Step{Do: Create},
		},
		"a certain no of another process closes nothing": {
			why: "the old leader's call may be in flight", seen: seen(lagging).intent(1, time.Second).empty(0), want: Step{Do: Wait},
		},
		"a yes whose machine isn't shown is waited for until reads must show it": {
			why:  "CAPA#1769: 404 for a machine that lives",
			seen: seen(lagging).intent(1, 10*time.Second).mine(1, 1, true).recorded("m1").empty(9 * time.Second), want: Step{Do: Wait},
		},
		"a machine that vanished is proved gone by two looks before it is replaced": {
			why:  "a Get says 404 for the living",
			seen: seen(lagging).intent(1, time.Hour).recorded("m1").empty(0), want: Step{Do: Wait, Cause: CauseVanished},
		},
		"a machine that vanished is replaced": {
			why: "NotFound -> clear ID -> create", seen: seen(lagging).intent(1, time.Hour).recorded("m1").empty(20 * time.Second),
			want: Step{Do: Create, Cause: CauseVanished},
		},
		"a machine that vanished is replaced at once where reads are exact": {
			why: "one look is proof", seen: seen(exact).intent(1, time.Hour).recorded("m1").empty(0), want: Step{Do: Create, Cause: CauseVanished},
		},
		"a machine that was deleted for its drift has not vanished": {
			why:  "the metric counts it once",
			seen: seen(exact).intent(1, time.Hour).recorded("m1").deleted("m1", time.Second).empty(0), want: Step{Do: Create},
		},
		"a hold puts off a create": {
			why: "quota: 5 minutes", seen: seen(exact).empty(0).held(time.Minute), want: Step{Do: Wait},
		},
		"a hold on other inputs puts off nothing": {
			why: "an edit, a rotated Secret lift it", seen: seen(exact).empty(0).held(time.Minute).with(func(s *Seen) { s.Want.Inputs = "new" }), want: Step{Do: Create},
		},
		"a hold keeps a machine that serves though it has drifted": {
			why:  "what would fail to be made again must not be taken down",
			seen: seen(exact).machine(1, hash("v1:old")).intent(1, time.Hour).held(time.Minute), want: Step{Do: Wait, Cause: CauseDrift},
		},
		"a machine that serves is spared while its create is open": {
			why:  "its successor would have to wait for the clock, with nothing serving",
			seen: seen(exact).machine(1, hash("v1:old")).intent(1, time.Second), want: Step{Do: Wait, Cause: CauseDrift},
		},
		"a machine that boots is not": {
			why: "nobody uses it yet", seen: seen(exact).machine(1, hash("v1:old"), in(providers.StateProvisioning)).intent(1, time.Second),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseDrift},
		},
		"a Secret that is gone takes nothing down": {
			why: "nothing could be made again", seen: seen(exact).machine(1, hash("v1:old")).intent(1, time.Hour).problem(), want: Step{Do: Nothing},
		},
		"a Secret that is gone leaves a stopped machine where it is": {
			why: "it may delay, never destroy", seen: seen(exact).machine(1, in(providers.StateStopped)).intent(1, time.Hour).problem(), want: Step{Do: Wait},
		},
		"a Secret that was never there makes nothing": {
			why: "CloudInitError", seen: seen(exact).empty(0).problem(), want: Step{Do: Wait},
		},
		"an account that left the configuration stops creates": {
			why: "a machine may be there", seen: seen(exact).intent(1, time.Hour).recorded("m1").empty(time.Hour).blind(), want: Step{Do: Wait},
		},
		"a replacement is asked for": {
			why: "asked for after the machine was", seen: seen(exact).machine(1).intent(1, time.Hour).replaceAt(noon.Add(-time.Minute)),
			want: Step{Do: Destroy, Of: ref("m1"), Cause: CauseRequested},
		},
		"a replacement that was asked for is done once": {
			why: "the machine was asked for after it", seen: seen(exact).machine(2).intent(2, time.Second).replaceAt(noon.Add(-time.Minute)), want: Step{Do: Nothing},
		},
		"a replacement is done once though the cloud's clock is behind": {
			why:  "the intent's time counts, not the cloud's",
			seen: seen(exact).machine(2, created(noon.Add(-time.Hour))).intent(2, time.Second).replaceAt(noon.Add(-time.Minute)), want: Step{Do: Nothing},
		},
		"a replacement in the future is a plan": {
			why: "not yet", seen: seen(exact).machine(1).intent(1, time.Hour).replaceAt(noon.Add(time.Second)), want: Step{Do: Nothing},
		},
		"a machine whose intent is dated ahead of our clock is as new as the cloud says": {
			why: "a clock that was set back doesn't make an old machine of a new one",
			seen: seen(exact).machine(2, created(noon.Add(-time.Second))).intent(2, time.Hour).replaceAt(noon.Add(-time.Minute)).
				with(func(s *Seen) { s.Ahead = true }), want: Step{Do: Nothing},
		},
		"a full zone leads to the next one": {
			why:  "another zone may do",
			seen: seen(exact).zones("a", "b").intent(1, time.Second).mine(1, 1, false).empty(0).with(func(s *Seen) { s.Intent.Zone = "a"; s.Calls.Intent.Zone = "a"; s.Calls.NoCapacity = true }),
			want: Step{Do: Create, Zone: "b"},
		},
		"the first wanted zone is taken first": {
			why: "order of preference", seen: seen(exact).zones("b", "a").empty(0), want: Step{Do: Create, Zone: "b"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := decide(c.seen.Seen)
			require.Equal(t, c.want, Step{Do: got.Do, Of: got.Of, Cause: got.Cause, Zone: got.Zone}, c.why)
			if got.Do == Wait || got.Do == Nothing {
				require.Positive(t, got.After, "a wait always ends in another look")
				require.LessOrEqual(t, got.After, permanentRetry)
			}
		})
	}
}

func TestDecideDelete(t *testing.T) {
	cases := map[string]struct {
		why  string
		seen scene
		want Step
	}{
		"with a machine: it is destroyed": {
			why: "exists -> prov.Delete", seen: seen(exact).machine(1).intent(1, time.Hour).recorded("m1"), want: Step{Do: Destroy, Of: ref("m1")},
		},
		"with twins: every one of them is destroyed": {
			why: "all of this UID", seen: seen(exact).machine(2).machine(1, in(providers.StateDeleting)).deleted("m1", time.Second).intent(2, time.Hour), want: Step{Do: Destroy, Of: ref("m2")},
		},
		"a machine on its way out is waited for": {
			why: "poll until gone", seen: seen(exact).machine(1, in(providers.StateDeleting)).recorded("m1").deleted("m1", time.Second), want: Step{Do: Wait},
		},
		"a machine on its way out that this process didn't tell to go is told": {
			why:  "who told it may have died half way",
			seen: seen(exact).machine(1, in(providers.StateDeleting)).recorded("m1"), want: Step{Do: Destroy, Of: ref("m1")},
		},
		"a recorded machine that is somebody else's is left alone": {
			why:  "status can be written by anybody with the right to",
			seen: seen(exact).intent(1, time.Hour).recorded("m1").own("m1").empty(confirmGap).with(func(s *Seen) { s.Foreign = true }), want: Step{Do: Release},
		},
		"one look is no proof while status names somebody else's machine": {
			why:  "no Get agreed with the list, however exact reads are",
			seen: seen(exact).intent(1, time.Hour).recorded("m1").own("m1").empty(0).with(func(s *Seen) { s.Foreign = true }), want: Step{Do: Wait},
		},
		"a recorded machine that no look shows any more is deleted all the same": {
			why: "reads lie, deletes don't", seen: seen(lagging).intent(1, time.Hour).recorded("m1").own("m1").empty(time.Hour), want: Step{Do: Destroy, Of: ref("m1")},
		},
		"a recorded machine that was never shown to be the Proxy's is not deleted": {
			why:  "it may be somebody else's, and a Get that lags doesn't show whose",
			seen: seen(lagging).intent(1, time.Hour).recorded("m1").own("m2").empty(time.Hour), want: Step{Do: Release},
		},
		"NotFound and proved: the Proxy goes": {
			why: "prov.Get -> ErrNotFound -> RemoveFinalizer", seen: seen(exact).intent(1, time.Hour).recorded("m1").deleted("m1", time.Second).empty(0), want: Step{Do: Release},
		},
		"one empty look is no proof where reads lag": {
			why: "two agreeing looks", seen: seen(lagging).intent(1, time.Hour).recorded("m1").deleted("m1", time.Second).empty(4 * time.Second), want: Step{Do: Wait},
		},
		"two empty looks far enough apart are": {
			why: "two agreeing looks", seen: seen(lagging).intent(1, time.Hour).recorded("m1").deleted("m1", time.Minute).empty(20 * time.Second), want: Step{Do: Release},
		},
		"without providerID an open create holds the Proxy": {
			why:  "the machine may exist though no list shows it yet (kubermatic/machine-controller#581)",
			seen: seen(lagging).intent(1, 10*time.Second).mine(1, 0, false).empty(9 * time.Second), want: Step{Do: Wait},
		},
		"without providerID and with every create refused the Proxy goes": {
			why: "nothing was made", seen: seen(exact).intent(1, time.Second).mine(1, 1, false).empty(0), want: Step{Do: Release},
		},
		"without providerID and after the clock closed the intent the Proxy goes": {
			why: "nothing can land any more", seen: seen(lagging).intent(1, 141*time.Second).empty(time.Minute), want: Step{Do: Release},
		},
		"a problem of the spec doesn't hold the Proxy": {
			why: "nothing is permanent on the way out", seen: seen(exact).machine(1).problem().held(time.Hour), want: Step{Do: Destroy, Of: ref("m1")},
		},
		"an account that left the configuration holds the Proxy": {
			why: "nobody can tell whether a machine is there", seen: seen(exact).intent(1, time.Hour).recorded("m1").empty(time.Hour).blind(), want: Step{Do: Wait},
		},
		"abandon lets go whatever is there": {
			why: "the UID was quoted", seen: seen(exact).machine(1).blind().with(func(s *Seen) { s.Abandon = true }), want: Step{Do: Release},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := decideDelete(c.seen.deleting().Seen)
			require.Equal(t, c.want, Step{Do: got.Do, Of: got.Of}, c.why)
			require.Equal(t, CauseDeleted, got.Cause)
			if got.Do == Wait {
				require.Positive(t, got.After, "a wait always ends in another look")
			}
		})
	}
}

func TestAnIntentIsOpen(t *testing.T) {
	cases := map[string]struct {
		why  string
		seen scene
		want bool
	}{
		"never without one":                        {"nothing was asked for", seen(exact), false},
		"until the clock closes it":                {"not ours, not seen", seen(exact).intent(1, 89*time.Second), true},
		"not after the clock":                      {"deadline 30 s + settle", seen(exact).intent(1, 91*time.Second), false},
		"though seen, without create tokens":       {"a late call can land in a freed name", seen(exact).machine(1).intent(1, time.Second), true},
		"not once seen, with create tokens":        {"a late call finds the token", seen(tokens).machine(1).intent(1, time.Second), false},
		"though a machine of another key is seen":  {"it proves nothing", seen(tokens).machine(1).intent(2, time.Second), true},
		"not once all own creates are answered no": {"certain", seen(lagging).intent(1, time.Second).mine(2, 2, false), false},
		"while one own create is unanswered":       {"a timeout is no answer", seen(lagging).intent(1, time.Second).mine(2, 1, false), true},
		"after an own yes until reads must show":   {"lag 20 s", seen(lagging).intent(1, 20*time.Second).mine(1, 1, true), true},
		"not after an own yes that reads denied":   {"it was made, and is gone", seen(lagging).intent(1, 21*time.Second).mine(1, 1, true), false},
		"not after an own yes that is seen":        {"nothing else is in flight", seen(lagging).machine(1).intent(1, time.Second).mine(1, 1, true), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.seen.open(), c.why)
		})
	}
}

func TestPollGrowsFromOneSecondToFive(t *testing.T) {
	require.Equal(t, pollFirst, poll(-time.Hour), "clocks differ")
	require.Equal(t, pollFirst, poll(0))
	require.Equal(t, 3*time.Second, poll(15*time.Second))
	require.Equal(t, pollMax, poll(time.Hour))
}

func TestAPlannedReplacementShortensTheDriftPoll(t *testing.T) {
	s := seen(exact).machine(1).intent(1, time.Hour).replaceAt(noon.Add(10 * time.Second))
	require.Equal(t, 10*time.Second, decide(s.Seen).After)
}

func TestATransientFailureBacksOffUpToFiveMinutes(t *testing.T) {
	var c Calls
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		require.Equal(t, want, c.backoff())
	}
	for range 100 {
		require.LessOrEqual(t, c.backoff(), maxBackoff)
	}
	require.Equal(t, maxBackoff, c.backoff())
}
