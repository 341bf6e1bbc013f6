// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// logged is a context in which the lines of info and above are kept.
func logged(t *testing.T) (ctx context.Context, lines *[]string) {
	t.Helper()
	lines = &[]string{}
	return log.IntoContext(t.Context(), funcr.New(func(_, args string) { *lines = append(*lines, args) }, funcr.Options{})), lines
}

// TestAListThatIsRefusedIsLoggedOnceAndSaysWhatToDo: it was one line a Proxy every five minutes, and a condition that named nothing.
func TestAListThatIsRefusedIsLoggedOnceAndSaysWhatToDo(t *testing.T) {
	w, cloud := newTroubled(t)
	w.create("a")
	w.ready("a")
	cloud.refused = &providers.Error{Class: providers.Denied, Op: "list instances", Code: "Forbidden", Advice: "namespace two refuses; mend it.", Err: errors.New("no right in two")}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	ctx, lines := logged(t)
	look := func() {
		res, err := w.r.Reconcile(ctx, ctrl.Request{NamespacedName: w.key("a")})
		require.NoError(t, err)
		w.wait(res, err)
	}
	told := func() int { return strings.Count(strings.Join(*lines, "\n"), "provider call did not succeed") }
	look()
	p := w.get("a")
	require.Equal(t, `Account "cloud" (Forbidden): namespace two refuses; mend it.`, messageOf(p, v1alpha1.ConditionStalled))
	require.Equal(t, v1alpha1.ReasonAccessDenied, reasonOf(p, v1alpha1.ConditionStalled))
	require.True(t, isReady(p), "an error tells nothing of the machine")
	require.Equal(t, 1, told())
	for range 3 {
		look()
	}
	require.Equal(t, 1, told(), "the same words again are no news")
	require.Equal(t, p.ResourceVersion, w.get("a").ResourceVersion)
	was := cloud.refused
	cloud.refused = nil
	look()
	require.Empty(t, reasonOf(w.get("a"), v1alpha1.ConditionStalled))
	cloud.refused = was
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute)) // a list of a moment ago would do
	look()
	require.Equal(t, 2, told(), "after a success they are")
}

// TestASweepThatFailsInOneWayIsLoggedOnce: an account that refuses for days was an error in the log every five minutes.
func TestASweepThatFailsInOneWayIsLoggedOnce(t *testing.T) {
	var lines []string
	s := &Sweeper{Collector: &Collector{Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}}
	s.tell("pods", errors.New("no right in two"))
	s.tell("pods", errors.New("no right in two"))
	require.Len(t, lines, 1)
	s.tell("pods", errors.New("no answer"))
	s.tell("local", errors.New("no answer"))
	require.Len(t, lines, 3)
	s.tell("pods", nil)
	s.tell("pods", errors.New("no answer"))
	require.Len(t, lines, 4, "after a success it is news")
}
