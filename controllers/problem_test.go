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

// troubled is a provider whose machines don't come up, or don't go, and which says why.
type troubled struct {
	providers.Provider
	state           providers.InstanceState
	problem, detail string
	overdue         string
	refused         error // of every list
}

func (p *troubled) Delete(ctx context.Context, ref providers.Ref) error {
	if p.overdue != "" {
		return nil // accepted, and nothing comes of it
	}
	return p.Provider.Delete(ctx, ref)
}

func (p *troubled) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	if p.refused != nil {
		return nil, p.refused
	}
	list, err := p.Provider.ListByTag(ctx, sel)
	for n := range list {
		if p.problem != "" {
			list[n].State, list[n].Problem, list[n].Detail = p.state, p.problem, p.detail
		}
		if p.overdue != "" {
			list[n].State, list[n].Overdue = providers.StateDeleting, p.overdue
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

// TestAMachineThatDoesNotGoTellsWhatKeepsIt: a pod that somebody's finalizer held, or whose node was lost, kept its Proxy
// Deleting or Replacing, and only the operator's log said why.
func TestAMachineThatDoesNotGoTellsWhatKeepsIt(t *testing.T) {
	const held = "Pod crawl/px-1 should have been gone at 2026-11-29T12:00:00Z; finalizers hold it: example.com/theirs."
	cases := map[string]struct {
		why     string
		begin   func(w *world)
		reason  string
		message string
	}{
		"while its Proxy is being deleted": {
			"somebody waits for the Proxy to go", func(w *world) { w.delete("a") }, v1alpha1.ReasonDeleting, messageDeleting,
		},
		"while it is being replaced": {
			"there is no machine that serves until it is gone", func(*world) {}, v1alpha1.ReasonReplacing, messageReplacing,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, cloud := newTroubled(t)
			w.create("a")
			w.ready("a")
			c.begin(w)
			cloud.overdue = held
			told := c.message + " " + held
			w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
			w.until("a", func() bool { return messageOf(w.get("a"), v1alpha1.ConditionReady) == told })
			p := w.get("a")
			require.Equal(t, c.reason, reasonOf(p, v1alpha1.ConditionReady), c.why)
			require.Equal(t, told, messageOf(p, v1alpha1.ConditionReconciling), c.why)
			require.Len(t, w.eventsOf(c.reason), 1, c.why)
			require.Contains(t, w.eventsOf(c.reason)[0], "Warning "+c.reason+" "+told)

			before := p.ResourceVersion
			for range 40 {
				_, err := w.tick("a")
				require.NoError(t, err)
			}
			require.Equal(t, before, w.get("a").ResourceVersion, "as long as nothing changes, nothing is written")
			w.cloud.SetDown(providers.Transient)
			_, err := w.tick("a")
			require.Error(t, err)
			w.cloud.SetDown("")
			for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling} {
				require.Equal(t, told, messageOf(w.get("a"), kind), "a look that fails changes nothing")
			}
			require.Len(t, w.eventsOf(c.reason), 1)

			cloud.overdue = ""
			if c.reason == v1alpha1.ReasonDeleting {
				w.until("a", func() bool { return w.gone("a") })
				return
			}
			require.NotContains(t, messageOf(w.ready("a"), v1alpha1.ConditionReady), held)
		})
	}
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
