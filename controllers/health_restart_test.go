// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestARestartDoesNotCallAHealthyFleetUnhealthy(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	w.create("px")
	p := w.ready("px")
	w.restart()
	d := w.probes()
	d.answer = func(s health.Subject) health.Verdict {
		return health.Verdict{Health: s.Prior, Reason: s.PriorReason, ExitIP: s.PriorExitIP}
	}
	for range 3 {
		_, err := w.tick("px")
		require.NoError(t, err)
	}
	require.Equal(t, p.ResourceVersion, w.get("px").ResourceVersion, "the new process begins with what status says")
	d.falls(p, probe.ReasonTimeout)
	w.until("px", func() bool { return w.cloud.Deletes(string(p.UID)) == 1 })
	require.Equal(t, "unhealthy", causeTold(w), "and knows that traffic got through it once")
}

// A new process doesn't know the credentials of a machine that was made from others than the Secret has now.
func TestARestartDoesNotCallAMachineUnhealthyForItsOldCredentials(t *testing.T) {
	cases := map[string]func(*world){
		"the Secret was rotated": func(w *world) { w.secret("login", map[string]string{"username": "crawler", "password": "new-new"}) },
		"the Secret is gone": func(w *world) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "login"}}
			require.NoError(w.t, w.api.Delete(w.t.Context(), s))
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			w, _ := probed(t, cloud.Pod())
			w.secret("login", map[string]string{"username": "crawler", "password": "old-old"})
			w.create("px", func(p *v1alpha1.Proxy) {
				p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "login"}}
			})
			old := w.ready("px")
			w.restart()
			change(w)
			d := w.probes()
			d.answer = func(s health.Subject) health.Verdict {
				if s.Incarnation == 1 && s.Proxy.Password != "old-old" {
					return health.Verdict{Health: health.Unhealthy, Reason: probe.ReasonAuthFailed}
				}
				return health.Verdict{Health: health.Healthy, Reason: probe.ReasonHealthy, ExitIP: "198.51.100.7"}
			}
			for range 5 {
				_, err := w.tick("px")
				require.NoError(t, err)
				p := w.get("px")
				if p.Status.ProviderID != old.Status.ProviderID || p.Status.IP == "" {
					break // replaced
				}
				require.Equal(t, "True/Created", statusOf(p, v1alpha1.ConditionReady))
				require.Equal(t, "True/Healthy", statusOf(p, v1alpha1.ConditionHealthy))
				require.Equal(t, old.Status.ExitIP, p.Status.ExitIP)
			}
			require.NotContains(t, fmt.Sprint(w.events), v1alpha1.ReasonAuthFailed)
		})
	}
}

// What status says counts for the very machine that it is of: a new process may see the next one first, or an older status.
func TestARestartDoesNotCallAnotherMachineHealthy(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*providers.Instance)
		want   health.Health
	}{
		"the same machine":        {"it answered", func(*providers.Instance) {}, health.Healthy},
		"the next machine":        {"killed before status named it", func(i *providers.Instance) { i.Tags.Incarnation++ }, health.Unknown},
		"at another address":      {"nobody has asked there yet", func(i *providers.Instance) { i.IP = "192.0.2.99" }, health.Unknown},
		"the next, with old keys": {"it is outdated already", func(i *providers.Instance) { i.Tags.Incarnation++; i.Tags.SpecHash = "v1:other" }, health.Unknown},
		"outdated, at another address": {"nobody can ask there", func(i *providers.Instance) {
			i.IP, i.Tags.SpecHash = "192.0.2.99", "v1:other"
		}, health.Unknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, _ := probed(t, cloud.Pod())
			w.create("px")
			p := w.ready("px")
			w.restart()
			d := w.probes()
			d.answer = func(s health.Subject) health.Verdict { return health.Verdict{Health: s.Prior, Reason: s.PriorReason} }
			i := w.machines(string(p.UID))[0]
			c.change(&i)
			want, err := w.r.want(t.Context(), p, false)
			require.NoError(t, err)
			require.Equal(t, c.want, w.r.vitals(p, Seen{Instances: []providers.Instance{i}, Want: want}).Health, c.why)
		})
	}
}

func TestARestartDoesNotCallAnotherEndpointHealthy(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	w.create("px", func(p *v1alpha1.Proxy) {
		p.Spec = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: "proxy.example.com", Port: 1080}}
	})
	p := w.ready("px")
	w.restart()
	d := w.probes()
	d.answer = func(s health.Subject) health.Verdict { return health.Verdict{Health: s.Prior, Reason: s.PriorReason} }
	w.edit("px", func(p *v1alpha1.Proxy) { p.Spec.Endpoint.Host = "other.example.com" })
	_, err := w.pass("px")
	require.NoError(t, err)
	require.Equal(t, "False/Probing", statusOf(w.get("px"), v1alpha1.ConditionReady))
	require.Equal(t, "other.example.com", d.watched[string(p.UID)].Proxy.Host)
}

// An old view comes first, in which nothing has got through the machine yet, and then the user data is another.
func TestAVerdictIsLearnedOfAnOutdatedMachineToo(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	w.create("px")
	p := w.ready("px")
	w.restart()
	d := w.probes()
	d.answer = unknown
	s := Seen{Instances: w.machines(string(p.UID))}
	var err error
	s.Want, err = w.r.want(t.Context(), p, false)
	require.NoError(t, err)
	old := p.DeepCopy()
	meta.RemoveStatusCondition(&old.Status.Conditions, v1alpha1.ConditionHealthy)
	require.Equal(t, health.Unknown, w.r.vitals(old, s).Health)
	s.Want.Material.UserData += "another"
	require.Equal(t, health.Healthy, w.r.vitals(p, s).Health)
	require.NotEmpty(t, d.watched, "it is probed as before")
}

// A list that lags must not end the probes of a machine that was seen running: outdated meanwhile, it would never be probed
// again, since nobody knows what it was made from, and Ready would stay whatever becomes of it.
func TestAnOldListEndsNoProbes(t *testing.T) {
	w, d := probed(t, cloud.AWS())
	acc := w.r.Providers["cloud"]
	lists := &oldLists{Provider: acc.Provider}
	acc.Provider = lists
	w.r.Providers["cloud"] = acc
	w.create("px")
	p := w.ready("px")
	lists.old = w.machines(string(p.UID))
	lists.old[0].State = providers.StateProvisioning
	w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
	_, err := w.r.lister(acc).Since(t.Context(), w.clock.Now()) // as for another Proxy of the account
	require.NoError(t, err)
	_, err = w.pass("px")
	require.NoError(t, err)
	require.Zero(t, d.forgot)
}

// oldLists is a provider whose lists can be those of a while ago.
type oldLists struct {
	providers.Provider
	old []providers.Instance
}

func (l *oldLists) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	if l.old != nil {
		return l.old, nil
	}
	return l.Provider.ListByTag(ctx, sel)
}
