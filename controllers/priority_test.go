// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// TestPassesAreTakenByWhatTheyAreFor: passes of a new process come with a low priority and would keep it; new Proxies then
// starved 5,000 that were there before.
func TestPassesAreTakenByWhatTheyAreFor(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	acc := w.r.Providers["cloud"]
	acc.Limits = providers.Limits{CallsPerSecond: 1, Burst: 1}
	w.r.Providers["cloud"] = acc
	w.r.Guard(3)
	w.create("first")
	w.create("second")
	res, err := w.pass("first")
	require.NoError(t, err)
	require.Equal(t, ptr.To(priorityUsual), res.Priority, "one that is served")
	for res.Priority != nil && *res.Priority == priorityUsual { // its list has its turn first
		res, err = w.tick("second")
		require.NoError(t, err)
	}
	require.Equal(t, ptr.To(priorityWaiting), res.Priority, "one that waits for its turn")
	require.Positive(t, res.RequeueAfter)
	w.ready("first")
	w.delete("first")
	res, err = w.pass("first")
	require.NoError(t, err)
	require.Equal(t, ptr.To(priorityDeleting), res.Priority, "one that goes")
}

func TestADeletionPassesThoseThatWaitForTheirFirstPass(t *testing.T) {
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: "new"}})
	p := &v1alpha1.Proxy{}
	p.Name = "goes"
	deletionsFirst().Update(t.Context(), event.UpdateEvent{ObjectOld: p, ObjectNew: p}, q)
	require.Equal(t, 1, q.Len(), "an edit has its own event")
	p.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
	deletionsFirst().Update(t.Context(), event.UpdateEvent{ObjectOld: p, ObjectNew: p}, q)
	require.Eventually(t, func() bool { return q.Len() == 2 }, 10*time.Second, 5*time.Millisecond)
	item, priority, _ := q.GetWithPriority()
	require.Equal(t, "goes", item.Name)
	require.Equal(t, priorityDeleting, priority)
}
