// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// TestARotationKeepsToTheBudget: a Secret that a whole fleet uses takes a tenth of it down at a time
// (kubernetes-sigs/karpenter#957).
func TestARotationKeepsToTheBudget(t *testing.T) {
	cases := map[string]struct {
		why     string
		proxies int
		budget  intstr.IntOrString
		most    int
	}{
		"one Proxy in the namespace": {"it is replaced all the same", 1, intstr.FromString("10%"), 1},
		"a tenth of twenty":          {"two at a time", 20, intstr.FromString("10%"), 2},
		"a number":                   {"three at a time", 8, intstr.FromInt32(3), 3},
		"nothing":                    {"at least one, or nothing would ever be rolled out", 4, intstr.FromInt32(0), 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, _ := probed(t, cloud.Pod())
			w.r.DisruptionBudget = c.budget
			w.secret("boot", map[string]string{"user-data": "#cloud-config 1"})
			names := w.fleet(c.proxies, func(p *v1alpha1.Proxy) {
				p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "boot", Key: "user-data"}}
			})
			w.secret("boot", map[string]string{"user-data": "#cloud-config 2"})
			most := 0
			for range 400 {
				for _, n := range names {
					_, err := w.pass(n)
					require.NoError(t, err)
					most = max(most, c.proxies-w.serving())
				}
				w.clock.SetTime(w.clock.Now().Add(time.Second))
				if w.rolled(names, 2) {
					break
				}
			}
			require.True(t, w.rolled(names, 2), "all are replaced in the end")
			require.Equal(t, c.most, most, c.why)
		})
	}
}

// fleet makes Ready Proxies.
func (w *world) fleet(n int, change func(*v1alpha1.Proxy)) []string {
	w.t.Helper()
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("px-%02d", i))
		w.create(names[i], change)
		w.ready(names[i])
	}
	return names
}

// serving counts the machines that run.
func (w *world) serving() int {
	n := 0
	for _, i := range w.cloud.All() {
		if i.State == providers.StateRunning {
			n++
		}
	}
	return n
}

// rolled reports whether all are Ready with a machine of the incarnation.
func (w *world) rolled(names []string, incarnation int64) bool {
	for _, n := range names {
		p := w.get(n)
		if !isReady(p) || p.Status.Instance.Incarnation != incarnation || statusOf(p, v1alpha1.ConditionReconciling) != "" {
			return false
		}
	}
	return true
}

func TestARolloutOfSomethingThatDoesNotWorkStops(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	w.secret("boot", map[string]string{"user-data": "#cloud-config good"})
	names := w.fleet(10, func(p *v1alpha1.Proxy) {
		p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "boot", Key: "user-data"}}
	})
	d.answer = ill(probe.ReasonConnectRefused)
	w.secret("boot", map[string]string{"user-data": "#cloud-config bad"})
	run := func(passes int) {
		for range passes {
			for _, n := range names {
				_, err := w.pass(n)
				require.NoError(t, err)
			}
			w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
		}
	}
	ready := func() (n int) {
		for _, name := range names {
			if isReady(w.get(name)) {
				n++
			}
		}
		return n
	}
	run(200)
	require.Equal(t, 9, ready(), "one was lost, and the others wait for it")
	w.restart()
	d = w.probes()
	d.answer = func(s health.Subject) health.Verdict {
		if s.Incarnation > 1 {
			return health.Verdict{Health: health.Unhealthy, Reason: probe.ReasonConnectRefused}
		}
		return health.Verdict{Health: health.Healthy}
	}
	run(200)
	require.Equal(t, 9, ready(), "a restart in the middle gives no second slot")
	d.answer = nil
	w.secret("boot", map[string]string{"user-data": "#cloud-config mended"})
	run(300)
	require.Equal(t, 10, ready(), "and the mended one gets through, the lost one first")
	for _, n := range names {
		require.Greater(t, w.get(n).Status.Instance.Incarnation, int64(1))
	}
}

func TestAllUnhealthyAreReplacedOneAfterTheOther(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	names := w.fleet(4, func(*v1alpha1.Proxy) {})
	for _, n := range names {
		d.falls(w.get(n), probe.ReasonTimeout)
	}
	for range 300 {
		for _, n := range names {
			_, err := w.pass(n)
			require.NoError(t, err)
		}
		require.GreaterOrEqual(t, w.serving(), 3, "one at a time: they may still serve somebody")
		w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
	}
	require.True(t, w.rolled(names, 2))
}

func TestASlotThatIsStuckOnQuotaIsFreed(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(2, func(*v1alpha1.Proxy) {})
	w.cloud.SetQuota(0)
	for _, n := range names {
		w.edit(n, func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
	}
	down := func() int { return 2 - w.serving() }
	run := func(d time.Duration) {
		for end := w.clock.Now().Add(d); w.clock.Now().Before(end); w.clock.SetTime(w.clock.Now().Add(10 * time.Second)) {
			for _, n := range names {
				_, err := w.pass(n)
				require.NoError(t, err)
			}
		}
	}
	run(testBootDeadline - time.Minute)
	require.Equal(t, 1, down(), "the second waits for the first")
	run(5 * time.Minute)
	require.Equal(t, 2, down(), "that there is no quota says nothing of what is rolled out; without guards nobody knows more")
}

func TestASlotOfAChangeThatWasTakenBackIsFreed(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(2, func(*v1alpha1.Proxy) {})
	label := func(name, value string) {
		w.edit(name, func(p *v1alpha1.Proxy) {
			p.Spec.Labels = nil
			if value != "" {
				p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": v1alpha1.LabelValue(value)}
			}
		})
	}
	label(names[0], "b")
	w.cloud.SetDown(providers.Transient) // the delete doesn't go through
	_, err := w.pass(names[0])
	require.Error(t, err)
	w.cloud.SetDown("")
	label(names[0], "")
	label(names[1], "b")
	for range 30 {
		for _, n := range names {
			_, err := w.pass(n)
			require.NoError(t, err)
		}
		w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
	}
	require.True(t, w.rolled(names[1:], 2), "or it would wait for a replacement that nobody wants any more")
}

func TestNobodyIsTakenDownWhileTheGateIsShut(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(2, func(*v1alpha1.Proxy) {})
	w.r.Guard(3)
	w.cloud.SetQuota(0)
	w.create("blocked")
	w.gives("blocked", v1alpha1.ReasonQuotaExceeded)
	for _, n := range names {
		w.edit(n, func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
		for range 20 {
			_, err := w.tick(n)
			require.NoError(t, err)
		}
		require.True(t, isReady(w.get(n)), "what can't be made again isn't taken down")
	}
}

// TestWhoWaitsForTheBudgetIsWokenWhenASlotIsFree: one after the other, though nobody asks again by itself.
func TestWhoWaitsForTheBudgetIsWokenWhenASlotIsFree(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(5, func(*v1alpha1.Proxy) {})
	var woken []string
	w.r.Wake = func(id types.NamespacedName) { woken = append(woken, id.Name) }
	for _, n := range names {
		w.edit(n, func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
		_, err := w.pass(n)
		require.NoError(t, err)
	}
	require.Empty(t, woken)
	told := strings.Join(w.events, "\n")
	require.Equal(t, 4, strings.Count(told, "Normal "+v1alpha1.ReasonWaitsForBudget), told)
	start := w.clock.Now()
	for next := names[0]; ; {
		res, err := w.pass(next)
		require.NoError(t, err)
		if len(woken) > 0 {
			next, woken = woken[0], woken[1:]
			continue
		}
		if w.rolled(names, 2) {
			break
		}
		w.clock.SetTime(w.clock.Now().Add(res.RequeueAfter))
		require.Less(t, w.clock.Since(start), time.Hour, "nobody was called")
	}
	require.Less(t, w.clock.Since(start), time.Minute, "nobody has waited for a poll")
	require.Equal(t, 4, strings.Count(strings.Join(w.events, "\n"), v1alpha1.ReasonWaitsForBudget), "each is told of once")
}

// TestWhoIsCalledAndFailsHoldsUpNobodyInTheLine: the slot was kept for a Proxy whose pass had ended in an error, and for one that
// needed none any more; the others came to it by their own polls, a minute later.
func TestWhoIsCalledAndFailsHoldsUpNobodyInTheLine(t *testing.T) {
	cases := map[string]struct {
		why    string
		before func(w *world, called string)
		after  func(w *world)
		fails  bool
	}{
		"an account that fails": {
			"the pass comes again by itself", func(w *world, _ string) { w.cloud.SetDown(providers.Transient) }, func(w *world) { w.cloud.SetDown("") }, true,
		},
		"an account that refuses": {
			"it may be so for hours", func(w *world, _ string) { w.cloud.SetDown(providers.Denied) }, func(w *world) { w.cloud.SetDown("") }, false,
		},
		"a change that was taken back": {
			"it needs no slot any more", func(w *world, called string) {
				w.edit(called, func(p *v1alpha1.Proxy) { p.Spec.Labels = nil })
			}, func(*world) {}, false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, _ := probed(t, cloud.Pod())
			names := w.fleet(4, func(*v1alpha1.Proxy) {})
			var woken []string
			w.r.Wake = func(id types.NamespacedName) { woken = append(woken, id.Name) }
			for _, n := range names {
				w.edit(n, func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
				_, err := w.pass(n)
				require.NoError(t, err)
			}
			w.delete(names[0]) // who has the slot
			_, err := w.pass(names[0])
			require.NoError(t, err)
			require.Contains(t, woken, names[1])
			require.NotContains(t, woken, names[2], "one slot, one call")
			w.clock.SetTime(w.clock.Now().Add(2 * time.Second)) // what it saw before is too old to act on
			c.before(w, names[1])
			_, err = w.pass(names[1])
			c.after(w)
			require.Equal(t, c.fails, err != nil, "%s: %v", c.why, err)
			require.Contains(t, woken, names[2], c.why)
			require.NotContains(t, woken, names[3], "one slot, one call")
		})
	}
}

func TestWhoIsDeletedOrPausedHoldsUpNobodyInTheLine(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(4, func(*v1alpha1.Proxy) {})
	var woken []string
	w.r.Wake = func(id types.NamespacedName) { woken = append(woken, id.Name) }
	for _, n := range names {
		w.edit(n, func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
		_, err := w.pass(n)
		require.NoError(t, err)
	}
	w.annotate(names[1], v1alpha1.AnnotationPaused, "true")
	_, err := w.pass(names[1])
	require.NoError(t, err)
	w.delete(names[0]) // who has the slot
	_, err = w.pass(names[0])
	require.NoError(t, err)
	require.Contains(t, woken, names[2])
	require.NotContains(t, woken, names[1], "it rests")
	require.NotContains(t, woken, names[3], "one slot, one call")
	w.delete(names[2])
	_, err = w.pass(names[2])
	require.NoError(t, err)
	w.until(names[0], func() bool { return w.gone(names[0]) })
	w.until(names[2], func() bool { return w.gone(names[2]) })
	for _, n := range []string{names[0], names[2]} {
		_, err = w.pass(n)
		require.NoError(t, err)
	}
	w.until(names[3], func() bool { return w.rolled(names[3:], 2) })
}

// TestANamespaceWithoutProxiesIsForgotten: namespaces come and go; the budget kept a few words of each for ever.
func TestANamespaceWithoutProxiesIsForgotten(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(2, func(*v1alpha1.Proxy) {})
	w.edit(names[0], func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
	w.until(names[0], func() bool { return w.rolled(names[:1], 2) })
	require.True(t, w.r.budget.knows(w.ns), "a slot was taken")
	for n, name := range names {
		w.removed(name)
		_, err := w.pass(name) // on what is gone
		require.NoError(t, err)
		require.Equal(t, n == 0, w.r.budget.knows(w.ns))
	}
	b := &w.r.budget
	require.Zero(t, len(b.seen)+len(b.full)+len(b.limit)+len(b.line)+len(b.slots)+len(w.r.memory.byID)+len(w.r.memory.in))
}
