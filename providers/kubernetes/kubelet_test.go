// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// The label by which a test tells the kubelet how to treat a pod, and its values.
const (
	treat        = "kubelet"
	neverStarts  = "never-starts"   // it stays without a node
	losesItsNode = "loses-its-node" // nobody tells of its end
	hasIPv6      = "has-ipv6"
)

// How long the kubelet takes.
const (
	bootLag  = 50 * time.Millisecond
	leaveLag = 100 * time.Millisecond
)

// kubelet is a test double of scheduler and kubelet: it binds pods to a node, waits for their Secret, has them run and be
// ready a little later, and tells of their end a little after they were told to go.
type kubelet struct {
	client kubernetes.Interface
}

func startKubelet(ctx context.Context, client kubernetes.Interface) error {
	w, err := client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	k := kubelet{client}
	go func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && (e.Type == watch.Added || e.Type == watch.Modified) {
				go k.see(ctx, pod)
			}
		}
	}()
	return nil
}

// see does the next thing for a pod. What fails, because the pod has changed meanwhile, is done at its next event.
func (k kubelet) see(ctx context.Context, pod *corev1.Pod) {
	how := pod.Labels[treat]
	switch {
	case how == neverStarts:
	case pod.DeletionTimestamp != nil:
		if how != losesItsNode {
			k.wait(ctx, leaveLag)
			now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}}
			_ = k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now)
		}
	case pod.Spec.NodeName == "":
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
		_ = k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodPending && k.mounted(ctx, pod):
		k.wait(ctx, bootLag)
		k.run(ctx, pod)
	}
}

func (k kubelet) wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-clock.RealClock{}.After(d):
	}
}

// mounted waits for the pod's Secrets, as the kubelet does.
func (k kubelet) mounted(ctx context.Context, pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		for v.Secret != nil {
			_, err := k.client.CoreV1().Secrets(pod.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			if err == nil {
				break
			}
			now, err := k.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if ctx.Err() != nil || err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil {
				return false
			}
			k.wait(ctx, glance)
		}
	}
	return true
}

func (k kubelet) run(ctx context.Context, pod *corev1.Pod) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.UID))
	s := h.Sum(nil)
	ip := netip.AddrFrom4([4]byte{10, s[0], s[1], s[2]}).String()
	if pod.Labels[treat] == hasIPv6 {
		ip = "2001:db8::1"
	}
	now := metav1.Now()
	k.patch(ctx, pod, corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
	})
}

// patch changes the status of that very pod.
func (k kubelet) patch(ctx context.Context, pod *corev1.Pod, s corev1.PodStatus) {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": s})
	if err != nil {
		panic(err)
	}
	_, _ = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, raw, metav1.PatchOptions{}, "status")
}
