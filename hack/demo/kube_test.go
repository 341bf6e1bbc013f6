// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/hack/operator"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestCommandsAreShownAsOneTypesThem(t *testing.T) {
	require.Equal(t, `get proxies -k config/samples '--x={"a b":1}' '' 'it'\''s'`,
		quoteAll([]string{"get", "proxies", "-k", "config/samples", `--x={"a b":1}`, "", "it's"}))
}

func TestReadyIsBelievedForTheNewestSpecOnly(t *testing.T) {
	now := metav1.Now()
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "m"}
	}
	cases := map[string]struct {
		why     string
		proxy   v1alpha1.Proxy
		ready   bool
		problem string
	}{
		"Ready":              {why: "it says so", proxy: v1alpha1.Proxy{Status: v1alpha1.ProxyStatus{Conditions: []metav1.Condition{condition("Ready", "True")}}}, ready: true, problem: "p: R: m"},
		"not Ready":          {why: "it says so", proxy: v1alpha1.Proxy{Status: v1alpha1.ProxyStatus{Conditions: []metav1.Condition{condition("Ready", "False")}}}, problem: "p: R: m"},
		"no status":          {why: "nobody has looked at it", proxy: v1alpha1.Proxy{}, problem: "p: no status yet"},
		"an edit not seen":   {why: "it is about the spec before", proxy: v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: v1alpha1.ProxyStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{condition("Ready", "True")}}}, problem: "p: R: m"},
		"on its way out":     {why: "its instance goes", proxy: v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: v1alpha1.ProxyStatus{Conditions: []metav1.Condition{condition("Ready", "True")}}}, problem: "p: R: m"},
		"Stalled, and Ready": {why: "the user is told what to change", proxy: v1alpha1.Proxy{Status: v1alpha1.ProxyStatus{Conditions: []metav1.Condition{condition("Ready", "True"), {Type: "Stalled", Reason: "S", Message: "do"}}}}, ready: true, problem: "p: S: do"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.proxy.Name = "p"
			require.Equal(t, c.ready, operator.IsReady(&c.proxy), c.why)
			require.Equal(t, c.problem, notReady(&c.proxy), c.why)
		})
	}
}

// withIntent is a Proxy as the operator leaves it before a create.
func withIntent(t *testing.T, in controllers.Intent) v1alpha1.Proxy {
	t.Helper()
	raw, err := in.At.MarshalText()
	require.NoError(t, err)
	text := `{"uid":"` + string(in.UID) + `","incarnation":1,"account":"local","at":"` + string(raw) + `"}`
	return v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationIntent: text}}}
}

func TestTheWaitForLateCreatesIsCountedDown(t *testing.T) {
	deadline, err := createDeadline()
	require.NoError(t, err)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) v1alpha1.Proxy { return withIntent(t, controllers.Intent{At: now.Add(-d)}) }
	require.Equal(t, 0, secondsLeft(nil, deadline, now))
	require.Equal(t, 0, secondsLeft([]v1alpha1.Proxy{{}, ago(deadline + time.Second)}, deadline, now), "none is on its way")
	require.Equal(t, 11, secondsLeft([]v1alpha1.Proxy{ago(deadline), ago(deadline - 10500*time.Millisecond)}, deadline, now), "the newest counts, in whole seconds")
}

func TestAnInstanceIsFoundByTheIntentAlone(t *testing.T) {
	p := withIntent(t, controllers.Intent{UID: "uid", At: time.Now()})
	in := intent(&p)
	require.NotNil(t, in)
	key := providers.Key{InstallationID: providers.InstallationID("cluster", "default"), ProxyUID: "uid", Incarnation: 1, Account: "local"}
	all := []operator.Machine{{Name: "px-other"}, {Name: key.Name()}}
	got, ok := instanceOf(all, in, "cluster")
	require.True(t, ok)
	require.Equal(t, key.Name(), got.Name)
	_, ok = instanceOf(all, in, "another cluster")
	require.False(t, ok)
	require.Nil(t, intent(&v1alpha1.Proxy{}))
}
