// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestShare(t *testing.T) {
	cases := map[string]struct {
		why  string
		of   string
		n    int
		want int
	}{
		"a tenth of a hundred":        {"the default", "10%", 100, 10},
		"a part is rounded down":      {"more than was allowed is too much", "10%", 29, 2},
		"a small fleet moves on":      {"one at a time, or never", "10%", 5, 1},
		"a fleet of one moves on":     {"the same", "10%", 1, 1},
		"an empty fleet":              {"nobody asks", "10%", 0, 1},
		"a number":                    {"whatever the fleet's size", "3", 100, 3},
		"a number over the fleet":     {"all may go", "3", 2, 3},
		"none":                        {"to hold everything is what paused is for", "0", 100, 1},
		"no part":                     {"the same", "0%", 100, 1},
		"all":                         {"who wants no budget", "100%", 7, 7},
		"what can't be read is least": {"the flag is checked at the start", "a few", 100, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, share(intstr.Parse(c.of), c.n), c.why)
		})
	}
}

// member is a Proxy of a fleet: its machine is of that incarnation, Ready.
func member(uid string, incarnation int64, change ...func(*v1alpha1.Proxy)) v1alpha1.Proxy {
	p := v1alpha1.Proxy{}
	p.UID, p.Name, p.Namespace, p.Spec.Mode = types.UID(uid), uid, "default", v1alpha1.ModeManaged
	p.Status.Instance = &v1alpha1.Instance{Incarnation: incarnation}
	ledger(incarnation)(&p)
	says(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, v1alpha1.ReasonCreated)(&p)
	says(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)(&p)
	says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonCreated)(&p)
	for _, c := range change {
		c(&p)
	}
	return p
}

func says(kind string, status metav1.ConditionStatus, reason string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { set(p, kind, cond{status, reason, ""}) }
}

func ledger(incarnation int64) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) {
		in := Intent{UID: p.UID, Incarnation: incarnation, Hash: "v1:a", Account: testAccount, At: noon}
		if err := in.write(p); err != nil {
			p.Name = err.Error() // no test's
		}
	}
}

func leavingNow(p *v1alpha1.Proxy) { p.DeletionTimestamp = &metav1.Time{Time: noon} }

func externalOne(p *v1alpha1.Proxy) { p.Spec.Mode = v1alpha1.ModeExternal }

// down makes a Proxy say what one without a machine says, for a reason.
func down(reason string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) {
		says(v1alpha1.ConditionProvisioned, metav1.ConditionFalse, reason)(p)
		says(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)(p)
		says(v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonProbing)(p)
	}
}

// unwell makes a Proxy say that its machine runs and requests don't get through.
func unwell(status metav1.ConditionStatus) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) {
		says(v1alpha1.ConditionHealthy, status, v1alpha1.ReasonTimeout)(p)
		says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTimeout)(p)
	}
}

func TestASlotIsOver(t *testing.T) {
	const stuck = 10 * time.Minute
	working := says(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonReplacing)
	member := func(incarnation int64, change ...func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
		p := member("a", incarnation, change...)
		return &p
	}
	cases := map[string]struct {
		why  string
		p    *v1alpha1.Proxy
		held time.Duration
		want bool
	}{
		"when the successor is Ready":                             {"the Proxy is served again", member(5), time.Second, true},
		"not while the successor is only there":                   {"it may be made from something that doesn't work", member(5, unwell(metav1.ConditionUnknown)), time.Hour, false},
		"not while the successor boots":                           {"the same", member(5, down(v1alpha1.ReasonProvisioning)), time.Hour, false},
		"not while the old machine is still told of":              {"the cache is behind the delete", member(4, working), time.Second, false},
		"not at once while the old machine says Ready":            {"the cache may be behind the delete", member(4), time.Second, false},
		"when the old machine is Ready and nothing is to be done": {"the change was taken back before it was acted on", member(4), 2 * time.Minute, true},
		"not while the old machine waits to be replaced":          {"its delete failed, and is tried again", member(4, working), time.Hour, false},
		"when the Proxy is gone":                                  {"nobody is left to wait for", nil, time.Second, true},
		"when the Proxy is deleted":                               {"it won't have a successor", member(4, leavingNow), time.Second, true},
		"not at once when the account is full":                    {"it may have a place in a moment", member(4, down(v1alpha1.ReasonQuotaExceeded)), stuck, false},
		"when the account has been full for long":                 {"that says nothing about what is rolled out", member(4, down(v1alpha1.ReasonQuotaExceeded)), stuck + 1, true},
		"when no zone had a machine for long":                     {"the same", member(4, down(v1alpha1.ReasonCapacityExhausted)), stuck + 1, true},
		"not when the request is refused for good":                {"that is what is rolled out", member(4, down(v1alpha1.ReasonPermanentError)), 24 * time.Hour, false},
		"not when a Secret is missing":                            {"the same", member(4, down(v1alpha1.ReasonCloudInitError)), 24 * time.Hour, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := slot{"default", 4, noon.Add(-c.held)}
			require.Equal(t, c.want, s.over(c.p, stuck, noon), c.why)
		})
	}
}

func TestANewProcessFindsTheSlotsOfTheLast(t *testing.T) {
	cases := map[string]struct {
		why  string
		p    v1alpha1.Proxy
		want int64 // the incarnation that was taken down; 0: no slot
	}{
		"one that is Ready has none":                     {"it is served", member("a", 3), 0},
		"one whose machine goes has one":                 {"its successor isn't asked for yet", member("a", 3, down(v1alpha1.ReasonReplacing)), 3},
		"one whose successor was asked for has one":      {"it isn't served", member("a", 3, down(v1alpha1.ReasonProvisioning)), 2},
		"one whose successor never worked has one":       {"or a bad rollout would go on after a restart", member("a", 3, unwell(metav1.ConditionUnknown)), 2},
		"one whose successor worked once has none":       {"the rollout is done; what ails it is another matter", member("a", 3, unwell(metav1.ConditionFalse)), 0},
		"one whose first machine boots has none":         {"nothing was taken down", member("a", 1, down(v1alpha1.ReasonProvisioning)), 0},
		"one whose first machine goes has one":           {"it was taken down", member("a", 1, down(v1alpha1.ReasonReplacing)), 1},
		"one whose successor finds no place has one":     {"it isn't served; the slot is over when that lasts", member("a", 3, down(v1alpha1.ReasonQuotaExceeded)), 2},
		"one whose successor's turn hasn't come has one": {"its first machine is gone, and the ledger tells of that", member("a", 1, down(v1alpha1.ReasonProvisioning), says(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonReplacing)), 1},
		"one that serves until there is a slot has none": {"it isn't Ready, and nobody took it down", member("a", 1, unwell(metav1.ConditionFalse), says(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonReplacing)), 0},
		"one that never had a machine has none":          {"there is no intent", member("a", 0, down(v1alpha1.ReasonProvisioning), func(p *v1alpha1.Proxy) { p.Annotations = nil }), 0},
		"one that is deleted has none":                   {"it won't have a successor", member("a", 3, down(v1alpha1.ReasonReplacing), leavingNow), 0},
		"one that somebody else runs has none":           {"nobody of ours takes it down", member("a", 3, down(v1alpha1.ReasonReplacing), externalOne), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := budget{slots: map[types.UID]slot{}}
			b.rebuild([]v1alpha1.Proxy{c.p}, nil, noon)
			require.Equal(t, c.want, b.slots["a"].incarnation, c.why)
			require.Equal(t, c.want > 0, b.has("a"), c.why)
		})
	}
}

// TestAnOldListHidWhoHadBeenTakenDown: the first pass of a new process saw the machine in a list from before it was told to go,
// and wrote that it runs and isn't proven. So its slot was taken once more.
func TestAnOldListHidWhoHadBeenTakenDown(t *testing.T) {
	var b budget
	told, runs := member("a", 1, down(v1alpha1.ReasonReplacing)), member("a", 1, unwell(metav1.ConditionUnknown))
	b.passed(&told, noon)
	b.passed(&runs, noon)
	other := member("b", 1)
	take := func() bool {
		return b.take(claim{of: &other, incarnation: 1, fleet: []v1alpha1.Proxy{runs, other}, most: intstr.FromInt32(1), stuck: time.Minute, now: noon})
	}
	require.False(t, take(), "one of two, and a is down")
	runs = member("a", 2)
	require.True(t, take(), "its successor works")
}

func TestTakingSlots(t *testing.T) {
	const stuck = 10 * time.Minute
	two := intstr.Parse("10%") // of twenty
	fleet := func(n int) []v1alpha1.Proxy {
		var all []v1alpha1.Proxy
		for i := range n {
			all = append(all, member(fmt.Sprintf("p%d", i), 1))
		}
		return all
	}
	take := func(b *budget, fleet []v1alpha1.Proxy, i int) bool {
		return b.take(claim{of: &fleet[i], incarnation: 1, fleet: fleet, most: two, stuck: stuck, now: noon})
	}

	t.Run("no more than the share", func(t *testing.T) {
		b, all := &budget{}, fleet(20)
		require.True(t, take(b, all, 0))
		require.True(t, take(b, all, 1))
		require.False(t, take(b, all, 2))
		require.True(t, b.isFull("default", noon), "nobody needs to count again")
		require.False(t, b.isFull("default", noon.Add(countAgain)))
		require.True(t, take(b, all, 1), "who has one keeps it")
	})
	t.Run("a slot comes back with the successor", func(t *testing.T) {
		b, all := &budget{}, fleet(10)
		require.True(t, take(b, all, 0))
		require.False(t, take(b, all, 1))
		all[0] = member("p0", 2)
		require.True(t, take(b, all, 1))
		require.False(t, take(b, all, 2))
	})
	t.Run("another namespace has slots of its own", func(t *testing.T) {
		b, all, others := &budget{}, fleet(10), fleet(10)
		for i := range others {
			others[i].Namespace, others[i].UID = "other", types.UID(fmt.Sprintf("o%d", i))
		}
		require.True(t, take(b, all, 0))
		require.True(t, take(b, others, 0))
		require.False(t, take(b, others, 1))
	})
	t.Run("those that somebody else runs and those that go don't make the share larger", func(t *testing.T) {
		b, all := &budget{}, fleet(20)
		externalOne(&all[18])
		leavingNow(&all[19])
		require.True(t, take(b, all, 0))
		require.False(t, take(b, all, 1), "a tenth of 18 is one")
	})
	t.Run("two holders don't wait for each other when the fleet shrinks", func(t *testing.T) {
		b, all := &budget{}, fleet(20)
		require.True(t, take(b, all, 0))
		require.True(t, take(b, all, 1))
		all = all[:10] // their deletes failed, and half of the fleet is gone
		require.True(t, take(b, all, 0), "or both would wait for ever")
		require.True(t, take(b, all, 1))
		require.False(t, take(b, all, 2))
	})
	t.Run("a new process counts those that are down before it gives one away", func(t *testing.T) {
		b, all := &budget{}, fleet(20)
		all[5], all[6] = member("p5", 1, down(v1alpha1.ReasonReplacing)), member("p6", 2, down(v1alpha1.ReasonProvisioning))
		require.False(t, take(b, all, 0))
		all[5] = member("p5", 2)
		require.True(t, take(b, all, 0))
	})
}

func TestVoluntary(t *testing.T) {
	destroy := func(cause Cause) Step { return Step{Do: Destroy, Of: ref("m1"), Cause: cause} }
	ok := cared(health.Healthy, time.Minute)
	cases := map[string]struct {
		why  string
		seen scene
		step Step
		want bool
	}{
		"drift":                              {"it serves", ok, destroy(CauseDrift), true},
		"a move":                             {"it serves", ok, destroy(CauseMoved), true},
		"a request":                          {"a person who asks for all at once gets them one after the other", ok, destroy(CauseRequested), true},
		"age":                                {"it serves", ok, destroy(CauseAge), true},
		"one that doesn't work any more":     {"or one outage takes down what may come back", cared(health.Unhealthy, time.Hour), destroy(CauseUnhealthy), true},
		"drift of one that doesn't work now": {"it may come back", cared(health.Unhealthy, time.Hour), destroy(CauseDrift), true},
		"one that never came up":             {"nobody is served by it", neverWorked(health.Unhealthy, time.Hour), destroy(CauseBoot), false},
		"drift of one that never came up":    {"or the mend would wait for what it mends", neverWorked(health.Unhealthy, time.Hour), destroy(CauseDrift), false},
		"drift where proxies aren't probed":  {"it runs, and nobody knows more", ok.with(func(s *Seen) { s.Vitals = Vitals{} }), destroy(CauseDrift), true},
		"one that stopped":                   {"it is down already", seen(exact).machine(1, in("Stopped")).intent(1, time.Hour), destroy(CauseStopped), false},
		"drift of one that an old list shows booting": {
			"status says that it worked", cared(health.Healthy, time.Minute).with(func(s *Seen) { s.Instances[0].State = providers.StateProvisioning }), destroy(CauseDrift), true,
		},
		"drift of one that boots": {
			"nobody is served by it", neverWorked("", time.Minute).with(func(s *Seen) { s.Instances[0].State = providers.StateProvisioning }), destroy(CauseDrift), false,
		},
		"a twin":               {"the other one stays", ok, destroy(CauseTwin), false},
		"an older incarnation": {"the newest serves", seen(exact).machine(1).machine(2).intent(2, time.Hour), destroy(CauseSuperseded), false},
		"another machine than the one that serves": {"the one that serves stays", seen(exact).machine(1).machine(2).intent(2, time.Hour), destroy(CauseDrift), false},
		"a Proxy that is deleted":                  {"the user chose", ok.deleting(), destroy(CauseDeleted), false},
		"a step that takes nothing down":           {"there is nothing to allow", ok, Step{Do: Wait, Cause: CauseDrift}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.seen.voluntary(c.step), c.why)
		})
	}
}

func TestTheLineForTheBudget(t *testing.T) {
	id := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "default", Name: name} }
	names := func(ids []types.NamespacedName) (out []string) {
		for _, i := range ids {
			out = append(out, i.Name)
		}
		return out
	}
	// line is a budget of two slots, both taken, for which three wait.
	line := func(t *testing.T) (*budget, []v1alpha1.Proxy) {
		t.Helper()
		b, all := &budget{}, []v1alpha1.Proxy{}
		for i := range 20 {
			all = append(all, member(fmt.Sprintf("p%d", i), 1))
		}
		for i := range 5 {
			require.Equal(t, i < 2, b.take(claim{of: &all[i], incarnation: 1, fleet: all, most: intstr.Parse("10%"), stuck: time.Hour, now: noon}))
			if i >= 2 {
				require.True(t, b.wait(id(all[i].Name)), "it begins to wait")
			}
		}
		require.Empty(t, b.next("default", noon), "there is no slot to call anybody for")
		return b, all
	}
	works := func(p *v1alpha1.Proxy) *v1alpha1.Proxy {
		q := member(string(p.UID), 2)
		return &q
	}

	t.Run("who waits is called when a slot is free, in the order of the line", func(t *testing.T) {
		b, all := line(t)
		require.True(t, b.giveBack(works(&all[0]), time.Hour, noon))
		require.False(t, b.isFull("default", noon), "who is called must be let in")
		require.Equal(t, []string{"p2"}, names(b.next("default", noon)))
		require.Empty(t, b.next("default", noon), "one slot is one call")
		require.True(t, b.giveBack(works(&all[1]), time.Hour, noon))
		require.Equal(t, []string{"p3"}, names(b.next("default", noon)))
	})
	t.Run("a slot that isn't over is kept", func(t *testing.T) {
		b, all := line(t)
		require.False(t, b.giveBack(&all[0], time.Hour, noon), "its successor isn't Ready")
		require.False(t, b.giveBack(works(&all[7]), time.Hour, noon), "it has none")
		require.Empty(t, b.next("default", noon))
	})
	t.Run("who comes and finds none waits on at its place, and isn't told of again", func(t *testing.T) {
		b, all := line(t)
		require.True(t, b.giveBack(works(&all[0]), time.Hour, noon))
		require.Equal(t, []string{"p2"}, names(b.next("default", noon)))
		require.False(t, b.wait(id("p2")), "somebody was faster")
		require.Equal(t, []string{"p2"}, names(b.next("default", noon)), "so that it is called again")
	})
	t.Run("who needs none any more leaves, and the next one is called", func(t *testing.T) {
		b, all := line(t)
		require.True(t, b.giveBack(works(&all[0]), time.Hour, noon))
		require.Equal(t, []string{"p2"}, names(b.next("default", noon)))
		require.True(t, b.leave(id("p2")), "so that the next one is called")
		require.False(t, b.leave(id("p4")), "nobody waits for the answer of one that wasn't called")
		require.Equal(t, []string{"p3"}, names(b.next("default", noon)))
	})
	t.Run("who is called and comes to nothing is passed over for a while, and keeps its place", func(t *testing.T) {
		b, all := line(t)
		require.False(t, b.lapse(id("p2"), noon), "it wasn't called")
		require.True(t, b.giveBack(works(&all[0]), time.Hour, noon))
		require.Equal(t, []string{"p2"}, names(b.next("default", noon)))
		require.True(t, b.lapse(id("p2"), noon))
		require.Equal(t, []string{"p3"}, names(b.next("default", noon)))
		require.True(t, b.lapse(id("p3"), noon))
		require.Equal(t, []string{"p4"}, names(b.next("default", noon)))
		require.True(t, b.lapse(id("p4"), noon))
		require.Empty(t, b.next("default", noon.Add(driftPoll-1)), "they don't call each other without end")
		require.Equal(t, []string{"p2"}, names(b.next("default", noon.Add(driftPoll))))
	})
	t.Run("the slot of one that is gone is another's", func(t *testing.T) {
		b, _ := line(t)
		require.True(t, b.giveUp("p1", "default"))
		require.False(t, b.giveUp("p1", "default"))
		require.Equal(t, []string{"p2"}, names(b.next("default", noon)))
	})
	t.Run("two free slots are two calls", func(t *testing.T) {
		b, all := line(t)
		require.True(t, b.giveBack(works(&all[0]), time.Hour, noon))
		require.True(t, b.giveBack(works(&all[1]), time.Hour, noon))
		require.Equal(t, []string{"p2", "p3"}, names(b.next("default", noon)))
	})
	t.Run("metrics", func(t *testing.T) {
		b, all := line(t)
		r := &ProxyReconciler{}
		r.budget.slots, r.budget.limit, r.budget.line = b.slots, b.limit, b.line
		gather := func() string {
			reg := prometheus.NewPedanticRegistry()
			require.NoError(t, reg.Register(r.BudgetCollector()))
			families, err := reg.Gather()
			require.NoError(t, err)
			var out []string
			for _, f := range families {
				for _, m := range f.GetMetric() {
					out = append(out, fmt.Sprintf("%s{%s} %v", f.GetName(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
				}
			}
			return strings.Join(out, "; ")
		}
		require.Equal(t, "proxy_operator_disruption_slots{default} 2; proxy_operator_disruption_slots_limit{default} 2; proxy_operator_disruption_waiting{default} 3", gather())
		for i := range 2 {
			r.budget.giveBack(works(&all[i]), time.Hour, noon)
		}
		for i := 2; i < 5; i++ {
			r.budget.leave(id(all[i].Name))
		}
		require.Empty(t, gather(), "where nothing goes on there is no series")
	})
}
