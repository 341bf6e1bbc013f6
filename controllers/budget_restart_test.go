// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// TestANewProcessDoesNotCountAnOldView: its cache is from before the last machine was taken down. Simulation,
// gce,objects=6,seed=2515850609,probe,age@166:1200,cloud-down@79:120,travel@295:3.
func TestANewProcessDoesNotCountAnOldView(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(2, func(*v1alpha1.Proxy) {})
	for _, n := range names {
		w.edit(n, func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
	}
	var old v1alpha1.ProxyList
	require.NoError(t, w.api.List(t.Context(), &old, client.InNamespace(w.ns)))
	_, err := w.pass(names[0])
	require.NoError(t, err)
	require.Equal(t, 1, w.serving())
	w.restart()
	w.probes()
	direct, ok := w.r.Client.(client.WithWatch)
	require.True(t, ok)
	w.r.Client = interceptor.NewClient(direct, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, l client.ObjectList, _ ...client.ListOption) error {
		list, ok := l.(*v1alpha1.ProxyList)
		require.True(t, ok)
		old.DeepCopyInto(list)
		return nil
	}})
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute)) // no create can be under way any more
	for _, n := range names {
		_, err = w.pass(n)
		require.NoError(t, err)
	}
	require.Equal(t, 1, w.serving(), "the old process has taken one down, and there is one slot")
}

// TestANewProcessSeesThatAFirstMachineIsGone: its successor wasn't asked for, since a create might be under way; the status told
// of that alone. Simulation, gce,objects=6,probe,rotate@150:1,crash-after@156.
func TestANewProcessSeesThatAFirstMachineIsGone(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(2, func(*v1alpha1.Proxy) {})
	for _, n := range names {
		w.edit(n, func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
	}
	_, err := w.pass(names[0])
	require.NoError(t, err)
	for range 2 { // the second process writes what it waits for, the third reads it
		w.restart()
		w.probes()
		for range 30 {
			_, err = w.pass(names[0])
			require.NoError(t, err)
			w.clock.SetTime(w.clock.Now().Add(time.Second))
		}
		p := w.get(names[0])
		require.Equal(t, v1alpha1.ReasonProvisioning, reasonAt(p, v1alpha1.ConditionProvisioned))
		require.Equal(t, v1alpha1.ReasonReplacing, reasonAt(p, v1alpha1.ConditionReconciling), "until the next machine is asked for")
	}
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute)) // no create can be under way any more
	_, err = w.pass(names[1])
	require.NoError(t, err)
	require.Equal(t, 1, w.serving(), "there is one slot")
	w.until(names[0], func() bool { return w.rolled(names[:1], 2) })
	w.until(names[1], func() bool { return w.rolled(names[1:], 2) })
}

// TestNobodyIsTakenDownBeforeEachProxyHadAPass: the last process may have ended between a delete and its status. Simulation,
// aws,objects=6,probe,rotate@400:1,crash-before@403.
func TestNobodyIsTakenDownBeforeEachProxyHadAPass(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(3, func(*v1alpha1.Proxy) {})
	w.edit(names[0], func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
	w.annotate(names[2], v1alpha1.AnnotationPaused, "true")
	w.restart()
	w.probes()
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute)) // no create can be under way any more
	for _, n := range []string{names[0], names[1], names[0]} {
		res, err := w.pass(n)
		require.NoError(t, err)
		require.Positive(t, res.RequeueAfter, "nobody wakes it")
		require.Equal(t, 3, w.serving(), "of one nothing is known yet")
		w.clock.SetTime(w.clock.Now().Add(res.RequeueAfter))
	}
	for _, n := range []string{names[2], names[0]} {
		_, err := w.pass(n)
		require.NoError(t, err)
	}
	require.Equal(t, 2, w.serving(), "that one rests is known too")
}

// TestAnOldViewCannotSayThatAMachineNeverWorked: what nobody is served by costs no slot, and a new process's view was from before
// Ready. Simulation, pod,objects=6,probe,rotate@130:1,travel@134:3.
func TestAnOldViewCannotSayThatAMachineNeverWorked(t *testing.T) {
	w, _ := probed(t, cloud.Pod())
	names := w.fleet(2, func(*v1alpha1.Proxy) {})
	for _, n := range names {
		w.edit(n, func(p *v1alpha1.Proxy) { p.Spec.Labels = map[string]v1alpha1.LabelValue{"a": "b"} })
	}
	_, err := w.pass(names[0])
	require.NoError(t, err)
	require.Equal(t, 1, w.serving())
	w.restart()
	w.probes()
	old := w.get(names[1])
	set(old, v1alpha1.ConditionHealthy, cond{metav1.ConditionUnknown, v1alpha1.ReasonProbing, messageProbing})
	set(old, v1alpha1.ConditionReady, cond{metav1.ConditionFalse, v1alpha1.ReasonProbing, messageProbing})
	direct, ok := w.r.Client.(client.WithWatch)
	require.True(t, ok)
	w.r.Client = interceptor.NewClient(direct, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
		p, ok := o.(*v1alpha1.Proxy)
		require.True(t, ok)
		old.DeepCopyInto(p)
		return nil
	}})
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute)) // no create can be under way any more
	_, err = w.pass(names[1])
	require.NoError(t, err)
	require.Equal(t, 1, w.serving(), "it goes when there is a slot")
}
