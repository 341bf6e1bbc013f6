// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// TestAVerdictIsWrittenThoughTheCloudIsDown: the probes don't go through the account's API, and its outage may last hours.
func TestAVerdictIsWrittenThoughTheCloudIsDown(t *testing.T) {
	cases := map[string]struct {
		why     string
		guarded bool // by a circuit breaker, that is open
	}{
		"lists fail":          {"each pass tries again", false},
		"the breaker is open": {"nobody tries for minutes", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, d := probed(t, cloud.Pod())
			w.create("px")
			if c.guarded {
				w.r.Guard(3)
			}
			before := w.ready("px")
			w.cloud.SetDown(providers.Transient)
			w.clock.SetTime(w.clock.Now().Add(2 * driftPoll))
			for range 10 {
				_, _ = w.tick("px")
			}
			require.Equal(t, before.ResourceVersion, w.get("px").ResourceVersion, "nothing has changed")

			deletes := w.cloud.Deletes(string(before.UID))
			d.falls(before, probe.ReasonTimeout)
			_, _ = w.pass("px")
			p := w.get("px")
			require.Equal(t, "False/Timeout", statusOf(p, v1alpha1.ConditionReady), c.why)
			require.Equal(t, "False/Timeout", statusOf(p, v1alpha1.ConditionHealthy))
			require.Equal(t, "True/Created", statusOf(p, v1alpha1.ConditionProvisioned), "of the machine nobody knows more")
			require.Equal(t, v1alpha1.PhaseUnhealthy, p.Status.Phase)
			require.Equal(t, before.Status.IP, p.Status.IP)
			for end := w.clock.Now().Add(time.Hour); w.clock.Now().Before(end); {
				_, _ = w.tick("px")
			}
			require.Equal(t, deletes, w.cloud.Deletes(string(before.UID)), "what isn't seen isn't replaced")
			require.Equal(t, p.ResourceVersion, w.get("px").ResourceVersion, "and is told of once")

			d.heals(p)
			_, _ = w.pass("px")
			p = w.get("px")
			require.Equal(t, "True/Created", statusOf(p, v1alpha1.ConditionReady))
			require.Equal(t, "True/Healthy", statusOf(p, v1alpha1.ConditionHealthy))
			require.Empty(t, statusOf(p, v1alpha1.ConditionReconciling))
			require.Empty(t, statusOf(p, v1alpha1.ConditionStalled))
		})
	}
}

// heals makes a watched proxy healthy from now on.
func (d *doctor) heals(p *v1alpha1.Proxy) {
	v := d.verdicts[string(p.UID)]
	v.Health, v.Reason, v.Since, v.ExitIP = health.Healthy, probe.ReasonHealthy, d.w.clock.Now(), "198.51.100.7"
	d.verdicts[string(p.UID)] = v
}

func TestWhatIsToldOfAMachineThatNoLookShows(t *testing.T) {
	works := health.Verdict{Incarnation: 3, Health: health.Healthy, Reason: probe.ReasonHealthy}
	broken := health.Verdict{Incarnation: 3, Health: health.Unhealthy, Reason: probe.ReasonTimeout}
	booting := func(p *v1alpha1.Proxy) {
		says(v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonProbing)(p)
		says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProbing)(p)
		says(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProbing)(p)
	}
	rolling := says(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonReplacing)
	stuck := says(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonCloudInitError)
	cases := map[string]struct {
		why     string
		p       v1alpha1.Proxy
		verdict health.Verdict
		want    [4]string // Ready, Healthy, Reconciling, Stalled
	}{
		"one that breaks": {
			"its users must know", member("a", 3), broken, [4]string{"False/Timeout", "False/Timeout", "", ""},
		},
		"one that comes up": {
			"requests get through it", member("a", 3, booting), works, [4]string{"True/Created", "True/Healthy", "", ""},
		},
		"one that comes up and is to be replaced": {
			"that isn't told by probes", member("a", 3, booting, rolling), works, [4]string{"True/Created", "True/Healthy", "True/Replacing", ""},
		},
		"one that breaks and whose inputs are unusable": {
			"the same", member("a", 3, stuck), broken, [4]string{"False/Timeout", "False/Timeout", "", "True/CloudInitError"},
		},
		"one that never worked and can't": {
			"it waits for what it waited for", member("a", 3, booting), health.Verdict{Incarnation: 3, Health: health.Unhealthy, Reason: probe.ReasonTimeout},
			[4]string{"False/Timeout", "Unknown/Timeout", "True/Timeout", ""},
		},
		"a verdict on another machine": {
			"it says nothing of this one", member("a", 4), broken, [4]string{"True/Created", "True/Healthy", "", ""},
		},
		"no verdict yet": {
			"what was written stays", member("a", 3), health.Verdict{Incarnation: 3, Health: health.Unknown, Hearsay: true}, [4]string{"True/Created", "True/Healthy", "", ""},
		},
		"a machine that goes": {
			"that it answers until then is no use", member("a", 3, down(v1alpha1.ReasonReplacing)), works, [4]string{"False/Replacing", "Unknown/Probing", "", ""},
		},
		"a Proxy that goes": {
			"the same", member("a", 3, leavingNow), broken, [4]string{"True/Created", "True/Healthy", "", ""},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := &doctor{verdicts: map[string]health.Verdict{"a": c.verdict}}
			r := &ProxyReconciler{Health: d}
			p := &c.p
			r.unseen(p, verdict{leave: true}).apply(p)
			var got [4]string
			for i, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionHealthy, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
				got[i] = statusOf(p, kind)
			}
			require.Equal(t, c.want, got, c.why)
		})
	}
}

func TestTheLogNamesAProxyThatIsProbed(t *testing.T) {
	r := &ProxyReconciler{}
	require.Empty(t, r.HealthNamed("a"))
	p := member("a", 1)
	r.memory.watching(&p)
	require.Equal(t, []any{"proxy", types.NamespacedName{Namespace: "default", Name: "a"}}, r.HealthNamed("a"))
}
