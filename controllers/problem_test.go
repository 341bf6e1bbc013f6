// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// troubled is a provider whose machines don't come up, and which says why.
type troubled struct {
	providers.Provider
	state           providers.InstanceState
	problem, detail string
}

func (p *troubled) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	list, err := p.Provider.ListByTag(ctx, sel)
	for n := range list {
		if p.problem != "" {
			list[n].State, list[n].Problem, list[n].Detail = p.state, p.problem, p.detail
		}
	}
	return list, err
}

func newTroubled(t *testing.T) (*world, *troubled) {
	t.Helper()
	w := newWorld(t, cloud.Pod())
	acc := w.account("cloud")
	p := &troubled{Provider: acc.Provider, state: providers.StateProvisioning}
	acc.Provider = p
	w.r.Providers["cloud"] = acc
	return w, p
}

func (w *world) eventsOf(reason string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, e := range w.events {
		if strings.Contains(e, " "+reason+" ") {
			out = append(out, e)
		}
	}
	return out
}

func TestAMachineThatDoesNotComeUpTellsWhy(t *testing.T) {
	w, cloud := newTroubled(t)
	cloud.problem, cloud.detail = "ImagePullBackOff", "tag not found, password hunter2-hunter2"
	w.secret("login", map[string]string{"username": "crawler", "password": "hunter2-hunter2"})
	w.create("a", func(p *v1alpha1.Proxy) { p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "login"}} })
	p := w.gives("a", v1alpha1.ReasonBootProblem)
	require.Equal(t, "The machine doesn't come up: ImagePullBackOff.", messageOf(p, v1alpha1.ConditionReady))
	require.Equal(t, v1alpha1.ReasonBootProblem, reasonOf(p, v1alpha1.ConditionReconciling))
	require.Equal(t, v1alpha1.PhaseProvisioning, p.Status.Phase)
	require.Equal(t, []string{"Warning BootProblem The machine doesn't come up: ImagePullBackOff. (tag not found, password [hidden])"},
		w.eventsOf(v1alpha1.ReasonBootProblem))

	before := p.ResourceVersion
	cloud.detail = "Back-off 40s"
	for range 5 {
		_, err := w.tick("a")
		require.NoError(t, err)
	}
	require.Equal(t, before, w.get("a").ResourceVersion, "other words for the same problem write nothing")

	cloud.problem, cloud.detail = "CrashLoopBackOff", "exit code 2"
	w.until("a", func() bool { return len(w.eventsOf(v1alpha1.ReasonBootProblem)) == 2 })
	require.Contains(t, w.eventsOf(v1alpha1.ReasonBootProblem)[1], "CrashLoopBackOff. (exit code 2)", "another problem is told of")

	cloud.problem = ""
	p = w.ready("a")
	require.Equal(t, "The machine runs.", messageOf(p, v1alpha1.ConditionReady))
	require.Equal(t, []string{"Normal Created The machine runs."}, w.eventsOf(v1alpha1.ReasonCreated), "what is over isn't told again")
}

func TestTheReplacementOfAMachineThatIsOverTellsWhy(t *testing.T) {
	w, cloud := newTroubled(t)
	w.create("a")
	w.ready("a")
	cloud.state, cloud.problem, cloud.detail = providers.StateTerminated, "Evicted", "the node was low on memory"
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.gives("a", v1alpha1.ReasonReplacing)
	require.Contains(t, strings.Join(w.eventsOf(v1alpha1.ReasonReplacing), "\n"), "(cause: stopped, Evicted the node was low on memory)")
	cloud.problem = ""
	w.ready("a")
}
