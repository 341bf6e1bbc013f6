// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/providertest"
)

func TestContract(t *testing.T) {
	for _, ns := range []string{strings.Repeat("n", 31) + "-" + strings.Repeat("9", 31), "0", "007", "true", "a--b"} {
		require.NoError(t, makeNamespace(t.Context(), ns, nil)) // the suite has Proxies there
	}
	providertest.Run(t, providertest.Harness{Open: open})
}

var worlds atomic.Int64

// world is one account on the API server, with a door of its own.
type world struct {
	t       testing.TB
	account string
	door    *door
}

func open(t testing.TB) providertest.World {
	w := &world{t: t, account: fmt.Sprintf("pods-%d", worlds.Add(1)), door: &door{}}
	t.Cleanup(w.clean)
	return providertest.World{
		Process: func() providers.Provider { return w.process(w.account) },
		Account: w.account, PageSize: 3, Patience: patience,
		Settle: w.settle, Exists: w.exists, Count: func() int { return len(w.pods().Items) }, Plant: w.plant,
		Stop: w.evict, Vanish: w.vanish,
		LoseCreate: func() { w.door.lose("POST", pods) },
		LoseDelete: func() { w.door.lose("DELETE", pods) },
		LateCreate: func() { w.door.delay("POST", pods, 200*time.Millisecond) },
		FailPage:   w.door.failPage,
		Interrupt: func(step int, f func()) func() bool {
			w.door.interrupt(step, f)
			return func() bool { w.settle(); return w.door.interrupted() }
		},
		Refuse: map[providers.ErrorClass]func(bool){
			providers.Transient:     w.door.refuse(503, "", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`),
			providers.Throttled:     w.door.refuse(429, "7", `Too many requests, please try again later.`),
			providers.Denied:        w.door.refuse(403, "", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden: User \"x\" cannot create resource \"pods\" in API group \"\" in the namespace \"crawl\"","reason":"Forbidden","code":403}`),
			providers.QuotaExceeded: w.quota,
		},
		Elsewhere: func() (providers.Provider, string) { return w.process(w.account + "-b"), w.account + "-b" },
	}
}

func (w *world) process(account string) *Provider {
	p := newProvider(w.t, account, w.door.into)
	p.pageSize = 3
	return p
}

// settle waits until what was sent has landed: the API server goes on for a moment with what its client gave up.
func (w *world) settle() {
	w.door.late.Wait()
	<-clock.RealClock{}.After(300 * time.Millisecond)
}

func (w *world) pods() *corev1.PodList {
	list, err := cluster.admin.CoreV1().Pods(metav1.NamespaceAll).List(w.t.Context(), metav1.ListOptions{LabelSelector: labelAccount + "=" + w.account})
	require.NoError(w.t, err)
	return list
}

// clean removes all pods and Secrets of the world.
func (w *world) clean() {
	for _, a := range []string{w.account, w.account + "-b"} {
		p := newProvider(w.t, a)
		ctx := context.WithoutCancel(w.t.Context())
		for _, kind := range []string{pods, secrets} {
			list, err := objects(ctx, kind, labelAccount+"="+p.account)
			require.NoError(w.t, err)
			for _, o := range list {
				sweep(w.t, o.Namespace, o.Name)
			}
		}
	}
}

func (w *world) exists(ref providers.Ref) bool {
	ns, n, _ := strings.Cut(ref.Path, "/")
	_, podErr := cluster.admin.CoreV1().Pods(ns).Get(w.t.Context(), n, metav1.GetOptions{})
	_, secretErr := cluster.admin.CoreV1().Secrets(ns).Get(w.t.Context(), n, metav1.GetOptions{})
	for _, err := range []error{podErr, secretErr} {
		require.True(w.t, err == nil || apierrors.IsNotFound(err), "%v", err)
	}
	return podErr == nil || secretErr == nil
}

// plant makes somebody else's pod under the name.
func (w *world) plant(_, name string) func() bool {
	pod := buildPod(w.account, ownImage, requestOf(w.account))
	pod.Name, pod.Annotations = name, nil
	pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts = nil, nil
	made, err := cluster.admin.CoreV1().Pods(home).Create(w.t.Context(), pod, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return func() bool {
		now, err := cluster.admin.CoreV1().Pods(home).Get(w.t.Context(), name, metav1.GetOptions{})
		require.NoError(w.t, err)
		return now.UID == made.UID && now.DeletionTimestamp == nil
	}
}

// evict does what the kubelet does on a node under pressure.
func (w *world) evict(ref providers.Ref) {
	ns, n, _ := strings.Cut(ref.Path, "/")
	pod, err := cluster.admin.CoreV1().Pods(ns).Get(w.t.Context(), n, metav1.GetOptions{})
	require.NoError(w.t, err)
	kubelet{cluster.admin}.patch(w.t.Context(), pod, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."})
}

// vanish takes the pod away by hand, and then the garbage collector comes.
func (w *world) vanish(ref providers.Ref) {
	ns, n, _ := strings.Cut(ref.Path, "/")
	sweep(w.t, ns, n)
}

// quota puts a real ResourceQuota into force, or takes it away; no controller counts here.
func (w *world) quota(on bool) {
	setQuota(w.t, home, on, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")})
}
