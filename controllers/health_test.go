// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// doctor is a Health whose verdicts the test gives.
type doctor struct {
	w        *world
	watched  map[string]health.Subject
	verdicts map[string]health.Verdict
	answer   func(health.Subject) health.Verdict // of who was not judged yet; nil: Healthy
	held     map[string]bool
	forgot   int // how often a watch ended
}

func (d *doctor) Watch(s health.Subject) {
	was, ok := d.watched[s.UID]
	d.watched[s.UID] = s
	if ok && was.Incarnation == s.Incarnation {
		return
	}
	v := health.Verdict{Health: health.Healthy, Reason: probe.ReasonHealthy, ExitIP: "198.51.100.7"}
	if d.answer != nil {
		v = d.answer(s)
	}
	v.UID, v.Incarnation, v.Since = s.UID, s.Incarnation, d.w.clock.Now()
	v.Hearsay = v.Health == health.Unknown
	d.verdicts[s.UID] = v
}

func (d *doctor) Forget(uid string) {
	if _, ok := d.watched[uid]; ok {
		d.forgot++
	}
	delete(d.watched, uid)
	delete(d.verdicts, uid)
}

func (d *doctor) Verdict(uid string) (health.Verdict, bool) {
	v, ok := d.verdicts[uid]
	return v, ok
}

func (d *doctor) Held(pool string) bool { return d.held[pool] }

// falls makes a watched proxy unhealthy from now on.
func (d *doctor) falls(p *v1alpha1.Proxy, reason probe.Reason) {
	v := d.verdicts[string(p.UID)]
	v.Health, v.Reason, v.Since, v.ExitIP = health.Unhealthy, reason, d.w.clock.Now(), ""
	d.verdicts[string(p.UID)] = v
}

const (
	testUnhealthyTimeout = 2 * time.Minute
	testBootDeadline     = 10 * time.Minute
)

// probed is a world whose operator probes.
func probed(t *testing.T, p cloud.Profile) (*world, *doctor) {
	t.Helper()
	w := newWorld(t, p)
	return w, w.probes()
}

func (w *world) probes() *doctor {
	d := &doctor{w: w, watched: map[string]health.Subject{}, verdicts: map[string]health.Verdict{}, held: map[string]bool{}}
	w.r.Health = d
	w.r.HealthDefaults = HealthDefaults{
		Targets: []probe.Target{{URL: "http://judge.test/", Judge: true}}, Interval: 15 * time.Second, Timeout: 5 * time.Second,
		UnhealthyTimeout: testUnhealthyTimeout, BootDeadline: testBootDeadline,
	}
	return d
}

func unknown(health.Subject) health.Verdict { return health.Verdict{Health: health.Unknown} }

func ill(reason probe.Reason) func(health.Subject) health.Verdict {
	return func(health.Subject) health.Verdict { return health.Verdict{Health: health.Unhealthy, Reason: reason} }
}

func TestReadyMeansThatTrafficGetsThrough(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	d.answer = unknown
	w.secret("login", map[string]string{"username": "crawler", "password": "hush-hush"})
	w.create("px", func(p *v1alpha1.Proxy) {
		p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "login"}}
	})
	w.until("px", func() bool {
		return meta.IsStatusConditionTrue(w.get("px").Status.Conditions, v1alpha1.ConditionProvisioned)
	})
	p := w.get("px")
	require.Equal(t, "False/Probing", statusOf(p, v1alpha1.ConditionReady), "a machine that runs proves nothing")
	require.Equal(t, "Unknown/Probing", statusOf(p, v1alpha1.ConditionHealthy))
	require.Equal(t, "True/Probing", statusOf(p, v1alpha1.ConditionReconciling))
	require.Equal(t, v1alpha1.PhaseProvisioning, p.Status.Phase)

	s := d.watched[string(p.UID)]
	require.Equal(t, probe.Proxy{Host: p.Status.IP, Port: 3128, Protocol: probe.HTTP, Username: "crawler", Password: "hush-hush", Trusted: true}, s.Proxy)
	require.True(t, s.CheckOpen, "it asks for credentials, so it must refuse who has none")
	require.Equal(t, "cloud/", s.Pool)

	d.verdicts[string(p.UID)] = health.Verdict{Incarnation: 1, Health: health.Healthy, Reason: probe.ReasonHealthy, ExitIP: "198.51.100.7"}
	p = w.ready("px")
	require.Equal(t, "True/Created", statusOf(p, v1alpha1.ConditionReady))
	require.Equal(t, "True/Healthy", statusOf(p, v1alpha1.ConditionHealthy))
	require.Equal(t, "198.51.100.7", p.Status.ExitIP)
	require.Nil(t, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReconciling))

	d.falls(p, probe.ReasonTimeout)
	_, err := w.pass("px")
	require.NoError(t, err)
	p = w.get("px")
	require.Equal(t, "False/Timeout", statusOf(p, v1alpha1.ConditionReady))
	require.Equal(t, "False/Timeout", statusOf(p, v1alpha1.ConditionHealthy))
	require.Equal(t, "True/Created", statusOf(p, v1alpha1.ConditionProvisioned), "the machine runs")
	require.Equal(t, v1alpha1.PhaseUnhealthy, p.Status.Phase)
	require.Empty(t, p.Status.ExitIP)
	require.Contains(t, fmt.Sprint(w.events), "Warning Timeout")
	version := p.ResourceVersion
	for range 3 {
		_, err = w.pass("px")
		require.NoError(t, err)
	}
	require.Equal(t, version, w.get("px").ResourceVersion, "the same state is written once (strimzi/strimzi-kafka-operator#13079)")
}

func TestAProxyThatNobodyCanJudgeSaysWhy(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	d.answer = func(health.Subject) health.Verdict {
		return health.Verdict{Health: health.Unknown, Reason: probe.ReasonTargetDenied}
	}
	w.create("px")
	w.until("px", func() bool {
		return meta.IsStatusConditionTrue(w.get("px").Status.Conditions, v1alpha1.ConditionProvisioned)
	})
	p := w.get("px")
	require.Equal(t, "False/TargetDenied", statusOf(p, v1alpha1.ConditionReady))
	require.Equal(t, "Unknown/TargetDenied", statusOf(p, v1alpha1.ConditionHealthy))
	require.Contains(t, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady).Message, "the target's URL leads")
}

func TestAVerdictOfTheMachineBeforeCountsForNothing(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	w.create("px")
	p := w.ready("px")
	d.answer = unknown
	stale := d.verdicts[string(p.UID)]
	w.edit("px", func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
	w.until("px", func() bool {
		i := w.get("px").Status.Instance
		return i != nil && i.Incarnation == 2 && meta.IsStatusConditionTrue(w.get("px").Status.Conditions, v1alpha1.ConditionProvisioned)
	})
	d.verdicts[string(p.UID)] = stale // a late probe (scrapoxy/scrapoxy#47)
	_, err := w.pass("px")
	require.NoError(t, err)
	require.Equal(t, "Unknown/Probing", statusOf(w.get("px"), v1alpha1.ConditionHealthy))
}

func TestWhatIsDoneAboutAMachineThatDoesNotWork(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*v1alpha1.Proxy)
		answer func(health.Subject) health.Verdict // of every machine
		falls  bool                                // after it worked
		held   bool
		after  time.Duration // it is replaced then, and not before; 0: never
	}{
		"one that worked is replaced when it stays unhealthy": {
			why: "the operator's --unhealthy-timeout", falls: true, after: testUnhealthyTimeout},
		"the spec says how long": {
			why: "spec.healthCheck.replaceAfter", falls: true, after: 30 * time.Second,
			change: func(p *v1alpha1.Proxy) {
				p.Spec.HealthCheck = &v1alpha1.HealthCheck{ReplaceAfter: &metav1.Duration{Duration: 30 * time.Second}}
			}},
		"remediation None leaves it": {
			why: "somebody wants to look at it", falls: true,
			change: func(p *v1alpha1.Proxy) {
				none := v1alpha1.RemediationNone
				p.Spec.HealthCheck = &v1alpha1.HealthCheck{Remediation: &none}
			}},
		"it is left while many fell ill at once": {
			why: "then it is hardly their own fault", falls: true, held: true},
		"one that never worked is replaced at its boot deadline": {
			why: "a machine that costs and doesn't serve", answer: ill(probe.ReasonConnectRefused), after: testBootDeadline},
		"the spec says how long it may boot": {
			why: "spec.bootDeadline", answer: ill(probe.ReasonConnectRefused), after: time.Minute,
			change: func(p *v1alpha1.Proxy) { p.Spec.BootDeadline = &metav1.Duration{Duration: time.Minute} }},
		"one that nobody could judge is left": {
			why: "the target is down: that is no machine's fault", answer: unknown},
		"an old one is replaced though it works": {
			why: "spec.maxAge, up to a tenth earlier", after: 90 * time.Minute,
			change: func(p *v1alpha1.Proxy) { p.Spec.MaxAge = &metav1.Duration{Duration: 100 * time.Minute} }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, d := probed(t, cloud.Pod())
			d.answer = c.answer
			d.held["cloud/"] = c.held
			w.create("px", func(p *v1alpha1.Proxy) {
				if c.change != nil {
					c.change(p)
				}
			})
			w.until("px", func() bool {
				return meta.IsStatusConditionTrue(w.get("px").Status.Conditions, v1alpha1.ConditionProvisioned)
			})
			asked := readIntent(w.get("px")).At
			if c.falls {
				d.falls(w.ready("px"), probe.ReasonTimeout)
				asked = w.clock.Now()
			}
			made := w.cloud.Creates(string(w.get("px").UID))
			for w.clock.Since(asked) < 2*time.Hour && w.cloud.Deletes(string(w.get("px").UID)) == 0 {
				_, _ = w.tick("px")
			}
			took := w.clock.Since(asked)
			if c.after == 0 {
				require.Zero(t, w.cloud.Deletes(string(w.get("px").UID)), c.why)
				return
			}
			require.Equal(t, 1, w.cloud.Deletes(string(w.get("px").UID)), c.why)
			require.Equal(t, 1, made)
			require.InDelta(t, c.after, took, float64(10*time.Second+c.after/9), "%s: after %s", c.why, took)
		})
	}
}

// TestACloudInitThatDoesNotWorkBurnsNoMoney: each machine in a row that doesn't come up gets twice the time.
func TestACloudInitThatDoesNotWorkBurnsNoMoney(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	d.answer = ill(probe.ReasonConnectRefused)
	w.create("px")
	p := w.get("px")
	start := w.clock.Now()
	for w.clock.Since(start) < 24*time.Hour {
		_, err := w.tick("px")
		require.NoError(t, err)
		if w.cloud.Creates(string(p.UID)) == 3 {
			w.restart() // what it knows isn't lost with the process
			d = w.probes()
			d.answer = ill(probe.ReasonConnectRefused)
		}
	}
	require.InDelta(t, 8, w.cloud.Creates(string(p.UID)), 1, "10, 20, 40 min and so on, not 144 machines a day")
	require.Positive(t, readIntent(w.get("px")).Boots)

	d.answer = nil
	w.edit("px", func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"mended": "yes"} })
	w.ready("px")
	require.Zero(t, readIntent(w.get("px")).Boots, "other inputs begin anew")
}

// causeTold is the cause of the newest replacement that Events tell of.
func causeTold(w *world) string {
	for _, e := range slices.Backward(w.events) {
		if _, cause, ok := strings.Cut(e, "cause: "); ok {
			return strings.TrimRight(cause, ")")
		}
	}
	return ""
}

func TestWithoutTargetsNothingIsProved(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	w.r.HealthDefaults.Targets = nil
	w.create("px")
	w.until("px", func() bool { return statusOf(w.get("px"), v1alpha1.ConditionStalled) == "True/NoTargets" })
	p := w.get("px")
	require.Equal(t, "False/NoTargets", statusOf(p, v1alpha1.ConditionReady))
	require.Contains(t, messageOf(p, v1alpha1.ConditionReady), "spec.healthCheck.targets")
	require.Empty(t, d.watched)
	w.edit("px", func(p *v1alpha1.Proxy) {
		p.Spec.HealthCheck = &v1alpha1.HealthCheck{Targets: []v1alpha1.HealthTarget{{URL: "https://example.com/", ExpectedStatus: []v1alpha1.StatusCode{200}}}}
	})
	w.ready("px")
	require.Equal(t, []probe.Target{{URL: "https://example.com/", ExpectStatus: []int{200}}}, d.watched[string(p.UID)].Targets)
	require.Equal(t, 1, w.cloud.Creates(string(p.UID)), "how a machine is probed isn't what it is made from")
}

func TestAnExternalProxyIsWatchedTheSameWay(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	socks := v1alpha1.ProtocolSOCKS5
	w.create("px", func(p *v1alpha1.Proxy) {
		p.Spec = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: "proxy.example.com", Port: 1080, Protocol: &socks}}
	})
	p := w.ready("px")
	require.Equal(t, probe.Proxy{Host: "proxy.example.com", Port: 1080, Protocol: probe.SOCKS5}, d.watched[string(p.UID)].Proxy)
	require.Equal(t, poolExternal, d.watched[string(p.UID)].Pool)
	d.falls(p, probe.ReasonConnectRefused)
	w.gives("px", v1alpha1.ReasonConnectRefused)
	require.Zero(t, len(w.cloud.Calls()), "nobody of ours can replace it")
	w.delete("px")
	_, err := w.pass("px")
	require.NoError(t, err)
	require.Empty(t, d.watched, "one that is gone isn't probed any more")
}

func TestADeletedProxyIsNotProbed(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	w.create("px")
	w.ready("px")
	w.delete("px")
	_, err := w.pass("px")
	require.NoError(t, err)
	require.Empty(t, d.watched)
	w.until("px", func() bool { return w.gone("px") })
}

func statusOf(p *v1alpha1.Proxy, kind string) string {
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}
