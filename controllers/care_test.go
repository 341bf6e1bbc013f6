// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/providers"
)

// cared is a probed machine of the first incarnation, asked for an hour ago, that worked once.
func cared(state health.Health, since time.Duration) scene {
	return seen(exact).machine(1).intent(1, time.Hour).with(func(s *Seen) {
		s.Want.Care = Care{Remediate: true, ReplaceAfter: 2 * time.Minute, BootDeadline: 10 * time.Minute}
		s.Vitals = Vitals{Probed: true, Of: ref("m1"), Health: state, Booted: true, Since: noon.Add(-since)}
	})
}

// neverWorked is the same, asked for some time ago, through which no request has got.
func neverWorked(state health.Health, age time.Duration) scene {
	s := cared(state, time.Minute).intent(1, age)
	s.Vitals.Booted = false
	return s
}

func TestCondemnedAt(t *testing.T) {
	born := noon.Add(-time.Hour)
	boots := func(s *Seen) { s.Instances[0].State = providers.StateProvisioning }
	cases := map[string]struct {
		why  string
		seen scene
		want doom
	}{
		"a machine that works stays": {
			why: "nothing is wrong", seen: cared(health.Healthy, time.Hour), want: doom{},
		},
		"a machine that worked has some time to come back": {
			why: "a daemon that restarts is no reason", seen: cared(health.Unhealthy, time.Minute), want: doom{noon.Add(time.Minute), CauseUnhealthy},
		},
		"a machine that worked isn't bound by its boot deadline": {
			why: "it is an hour old, and that is long over", seen: cared(health.Unhealthy, 0), want: doom{noon.Add(2 * time.Minute), CauseUnhealthy},
		},
		"a machine of which nothing is known stays": {
			why: "the target may be down", seen: cared(health.Unknown, time.Hour), want: doom{},
		},
		"a machine that isn't watched stays": {
			why: "there are no targets", seen: cared("", time.Hour), want: doom{},
		},
		"remediation None leaves a machine that worked alone": {
			why: "the user wants to look at it", seen: cared(health.Unhealthy, time.Hour).with(func(s *Seen) { s.Want.Care.Remediate = false }), want: doom{},
		},
		"a verdict on another machine says nothing": {
			why: "it is the one before", seen: cared(health.Unhealthy, time.Hour).with(func(s *Seen) { s.Vitals.Of = ref("m0") }), want: doom{},
		},
		"a pool that is held condemns nobody that worked": {
			why: "so many at once is hardly their own fault", seen: cared(health.Unhealthy, time.Hour).with(func(s *Seen) { s.Vitals.Held = true }), want: doom{},
		},
		"a pool that is held condemns nobody that runs and never worked": {
			why: "the same", seen: neverWorked(health.Unhealthy, time.Hour).with(func(s *Seen) { s.Vitals.Held = true }), want: doom{},
		},
		"a machine that was ill when its target went down is spared": {
			why:  "the newest round doesn't blame it, and none can show whether it is well again",
			seen: cared(health.Unhealthy, time.Hour).with(func(s *Seen) { s.Vitals.Doubted = true }), want: doom{},
		},
		"one that never worked, too": {
			why: "the same", seen: neverWorked(health.Unhealthy, time.Hour).with(func(s *Seen) { s.Vitals.Doubted = true }), want: doom{},
		},
		"a machine that boots is bound by its deadline though its pool is held": {
			why:  "it isn't probed, so that nobody else's fault shows",
			seen: neverWorked("", time.Minute).with(boots, func(s *Seen) { s.Vitals.Held = true }), want: doom{noon.Add(9 * time.Minute), CauseBoot},
		},
		"a machine that boots has until its deadline": {
			why: "from the intent, not from when it was seen", seen: neverWorked("", time.Minute).with(boots), want: doom{noon.Add(9 * time.Minute), CauseBoot},
		},
		"a machine that runs and never worked has until its deadline": {
			why: "cloud-init installs the proxy after the machine runs", seen: neverWorked(health.Unhealthy, time.Minute), want: doom{noon.Add(9 * time.Minute), CauseBoot},
		},
		"a machine that runs and of which nobody can tell stays": {
			why: "a target that is down replaces nobody", seen: neverWorked(health.Unknown, time.Hour), want: doom{},
		},
		"remediation None doesn't end the boot deadline": {
			why:  "it is about machines that worked",
			seen: neverWorked(health.Unhealthy, time.Minute).with(func(s *Seen) { s.Want.Care.Remediate = false }), want: doom{noon.Add(9 * time.Minute), CauseBoot},
		},
		"a machine that ran and boots again has its time again": {
			why: "the restart of a node is no reason to make all its machines anew",
			seen: cared("", time.Hour).with(boots, func(s *Seen) {
				s.Calls.Ran, s.Calls.RanUntil = ran{instance: s.Instances[0], at: noon.Add(-50 * time.Minute)}, noon.Add(-time.Minute)
			}), want: doom{noon.Add(9 * time.Minute), CauseBoot},
		},
		"that another machine ran is no excuse": {
			why: "it is the one before",
			seen: cared("", time.Hour).with(boots, func(s *Seen) {
				s.Calls.Ran.instance.Ref, s.Calls.RanUntil = ref("m0"), noon.Add(-time.Minute)
			}), want: doom{noon.Add(-50 * time.Minute), CauseBoot},
		},
		"without a boot deadline a machine boots for ever": {
			why: "0 means never", seen: neverWorked("", time.Hour).with(boots, func(s *Seen) { s.Want.Care.BootDeadline = 0 }), want: doom{},
		},
		"a deadline that is over stays where it was": {
			why: "a wait until then would be none", seen: neverWorked(health.Unhealthy, time.Hour), want: doom{born.Add(10 * time.Minute), CauseBoot},
		},
		"where proxies aren't probed a machine that runs isn't judged": {
			why: "nobody looked", seen: cared("", time.Hour).with(func(s *Seen) { s.Vitals = Vitals{} }), want: doom{},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			i := c.seen.Instances[0]
			got := c.seen.condemnedAt(i)
			require.Equal(t, c.want, got, c.why)
			want := Cause("")
			if !c.want.when.IsZero() && !noon.Before(c.want.when) {
				want = c.want.cause
			}
			require.Equal(t, want, c.seen.condemned(i), c.why)
		})
	}
}

func TestTheEarlierOfAgeAndHealthCounts(t *testing.T) {
	cases := map[string]struct {
		why   string
		age   time.Duration
		since time.Duration
		want  Cause
	}{
		"too old before it is given up": {why: "it was to go at a time between", age: time.Hour, since: 10 * time.Second, want: CauseAge},
		"given up before it is too old": {why: "it is young", age: 24 * time.Hour, since: 10 * time.Second, want: CauseUnhealthy},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := cared(health.Unhealthy, c.since).with(func(s *Seen) { s.Want.Care.MaxAge = c.age })
			require.Equal(t, c.want, s.condemnedAt(s.Instances[0]).cause, c.why)
		})
	}
}

func TestTheMomentOfItsDoomIsTooLate(t *testing.T) {
	s := cared(health.Unhealthy, 2*time.Minute)
	require.Equal(t, CauseUnhealthy, s.condemned(s.Instances[0]), "or a wait until then would end in another wait of nothing")
	s.Now = s.Now.Add(-time.Nanosecond)
	require.Empty(t, s.condemned(s.Instances[0]))
	require.Equal(t, time.Nanosecond, s.untilDoom(s.Instances[0], driftPoll))
	require.Equal(t, driftPoll, cared(health.Healthy, 0).untilDoom(s.Instances[0], driftPoll), "who isn't condemned is looked at as ever")
}

func TestTheBootDeadlineDoubles(t *testing.T) {
	cases := map[string]struct {
		why   string
		boots int
		from  time.Duration
		want  time.Duration
	}{
		"the first machine has the time of the spec":    {"nothing failed yet", 0, 10 * time.Minute, 10 * time.Minute},
		"the second has twice as long":                  {"what failed once fails again, most often", 1, 10 * time.Minute, 20 * time.Minute},
		"the fifth has sixteen times as long":           {"the same", 4, 10 * time.Minute, 160 * time.Minute},
		"no machine has more than a day":                {"somebody may have mended it from outside", 9, 10 * time.Minute, 24 * time.Hour},
		"the longest deadline isn't doubled":            {"the same", 1, 24 * time.Hour, 24 * time.Hour},
		"a count from a forged ledger doesn't overflow": {"a deadline below zero would delete at once", 1 << 40, 30 * time.Second, 30 * time.Second << mostDoubled},
		"a count below zero is none":                    {"somebody wrote it", -1, 10 * time.Minute, 10 * time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := seen(exact).intent(2, time.Minute)
			s.Intent.Boots = c.boots
			require.Equal(t, c.want, s.bootDeadline(c.from), c.why)
		})
	}
	require.Equal(t, time.Minute, seen(exact).bootDeadline(time.Minute), "without a ledger nothing is known to have failed")
}

// TestMachinesThatFallIllYoungAreReplacedLessAndLessOften: what makes each new machine ill, such as a target that bans it,
// would burn a machine every few minutes.
func TestMachinesThatFallIllYoungAreReplacedLessAndLessOften(t *testing.T) {
	cases := map[string]struct {
		why   string
		boots int
		after time.Duration // of its life, when it fell ill
		spec  time.Duration
		want  time.Duration
	}{
		"the first has the time of the spec":            {"nothing is known yet", 0, 20 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		"the second is waited for twice as long":        {"what made the first ill may last", 1, 20 * time.Minute, 2 * time.Minute, 4 * time.Minute},
		"the fourth eight times as long":                {"the same", 3, 20 * time.Minute, 2 * time.Minute, 16 * time.Minute},
		"none is waited for more than an hour":          {"what made them ill may be over", 9, 20 * time.Minute, 2 * time.Minute, time.Hour},
		"unless the spec says so":                       {"a longer time isn't cut short", 9, 20 * time.Minute, 3 * time.Hour, 3 * time.Hour},
		"one that was well for an hour has its time":    {"it has proved what it was made from", 3, time.Hour, 2 * time.Minute, 2 * time.Minute},
		"a moment less is too young":                    {"the bound is somewhere", 3, time.Hour - 1, 2 * time.Minute, 16 * time.Minute},
		"a count from a forged ledger doesn't overflow": {"a time below zero would delete at once", 1 << 40, 0, 2 * time.Minute, time.Hour},
		"a count below zero is none":                    {"somebody wrote it", -3, 0, 2 * time.Minute, 2 * time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := cared(health.Unhealthy, 0).intent(1, 2*time.Hour).with(boots(c.boots), func(s *Seen) {
				s.Want.Care.ReplaceAfter, s.Vitals.Since = c.spec, s.Intent.At.Add(c.after)
			})
			require.Equal(t, doom{s.Vitals.Since.Add(c.want), CauseUnhealthy}, s.condemnedAt(s.Instances[0]), c.why)
		})
	}
}

func TestWhichReplacementsSpeakAgainstTheInputs(t *testing.T) {
	fell := func(after time.Duration) scene {
		return cared(health.Unhealthy, 0).intent(1, 2*time.Hour).with(func(s *Seen) { s.Vitals.Since = s.Intent.At.Add(after) })
	}
	cases := map[string]struct {
		why  string
		seen scene
		step Step
		want bool
	}{
		"one that never came up":           {"the next won't either, most likely", neverWorked(health.Unhealthy, time.Hour), Step{Do: Destroy, Of: ref("m1"), Cause: CauseBoot}, true},
		"one that fell ill young":          {"the same", fell(20 * time.Minute), Step{Do: Destroy, Of: ref("m1"), Cause: CauseUnhealthy}, true},
		"one that fell ill later":          {"machines break", fell(time.Hour), Step{Do: Destroy, Of: ref("m1"), Cause: CauseUnhealthy}, false},
		"one that goes for its age":        {"it works", fell(20 * time.Minute), Step{Do: Destroy, Of: ref("m1"), Cause: CauseAge}, false},
		"one that somebody wants gone":     {"it works", fell(20 * time.Minute), Step{Do: Destroy, Of: ref("m1"), Cause: CauseRequested}, false},
		"another than the one that is ill": {"nothing is known of it", fell(20 * time.Minute), Step{Do: Destroy, Of: ref("m0"), Cause: CauseUnhealthy}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.seen.failed(c.step), c.why)
		})
	}
}

func TestBootsBefore(t *testing.T) {
	cases := map[string]struct {
		why  string
		seen scene
		hash string
		want int
	}{
		"the first machine": {"there was none before", seen(exact), wantedHash(), 0},
		"one that was given up counts": {
			"the next has longer", seen(exact).intent(3, time.Hour).with(boots(1), func(s *Seen) { s.Calls.BootFailed = 3 }), wantedHash(), 2,
		},
		"one that went for another reason doesn't count": {
			"a machine that the cloud took away may have been about to work", seen(exact).intent(3, time.Hour).with(boots(1)), wantedHash(), 1,
		},
		"one that was given up long before counts once": {
			"its successor's intent has it already", seen(exact).intent(3, time.Hour).with(boots(1), func(s *Seen) { s.Calls.BootFailed = 2 }), wantedHash(), 1,
		},
		"one that worked begins anew": {
			"the inputs are good", seen(exact).intent(3, time.Hour).with(boots(2), func(s *Seen) { s.Calls.Booted, s.Calls.BootedIs = 3, true }), wantedHash(), 0,
		},
		"one that worked, and fell ill young, counts": {
			"it was replaced for it", seen(exact).intent(3, 20*time.Minute).with(boots(1), func(s *Seen) {
				s.Calls.Booted, s.Calls.BootedIs, s.Calls.BootFailed = 3, true, 3
			}), wantedHash(), 2,
		},
		"one that fell ill young counts though its end came late": {
			"it was waited for", seen(exact).intent(3, 90*time.Minute).with(boots(5), func(s *Seen) {
				s.Calls.Booted, s.Calls.BootedIs, s.Calls.BootFailed = 3, true, 3
			}), wantedHash(), 6,
		},
		"one that worked and went young for another reason changes nothing": {
			"it has proved nothing", seen(exact).intent(3, 20*time.Minute).with(boots(2), func(s *Seen) { s.Calls.Booted, s.Calls.BootedIs = 3, true }), wantedHash(), 2,
		},
		"that an earlier one worked doesn't count": {
			"the inputs may have changed since", seen(exact).intent(3, time.Hour).with(boots(2), func(s *Seen) { s.Calls.Booted, s.Calls.BootedIs = 2, true }), wantedHash(), 2,
		},
		"other inputs begin anew": {
			"a mended cloud-init mustn't wait for the broken one", seen(exact).intent(3, time.Hour).with(boots(4), func(s *Seen) { s.Calls.BootFailed = 3 }), "v1:other", 0,
		},
		"the count has an end": {
			"the deadline has one too", seen(exact).intent(30, time.Hour).with(boots(mostDoubled), func(s *Seen) { s.Calls.BootFailed = 30 }), wantedHash(), mostDoubled,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.seen.bootsBefore(c.hash), c.why)
		})
	}
}

// boots sets how many machines failed before that of the intent.
func boots(n int) func(*Seen) { return func(s *Seen) { s.Intent.Boots = n } }

func TestMachinesMadeTogetherDoNotGoTogether(t *testing.T) {
	const age = 10 * time.Hour
	s := seen(exact).intent(1, 0).with(func(s *Seen) { s.Want.Care.MaxAge = age })
	at := map[time.Time]int{}
	for n := range 100 {
		uid := fmt.Sprintf("%x", sha256.Sum256([]byte{byte(n)}))[:32]
		i := providers.Instance{Tags: providers.Tags{OwnerUID: uid, Incarnation: 1}, CreatedAt: noon}
		d := s.oldAt(i)
		require.Equal(t, CauseAge, d.cause)
		require.False(t, d.when.After(noon.Add(age)), "never later than the spec says")
		require.False(t, d.when.Before(noon.Add(age-age/10)), "at most a tenth earlier")
		require.Equal(t, d, s.oldAt(i), "every look gives the same time")
		at[d.when.Truncate(age/100)]++
	}
	for when, n := range at {
		require.Less(t, n, 30, "%s", when)
	}
	require.Greater(t, len(at), 7, "they are spread over the whole tenth")
	s.Want.Care.MaxAge = 0
	require.Zero(t, s.oldAt(providers.Instance{CreatedAt: noon.Add(-1000 * time.Hour)}), "for ever if left out")
}
