// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/child"
)

// pods stand in for a node: each pod of the namespace is a process on an address of its own in 127/8, with the pod's
// arguments and the files of its Secret.
type pods struct {
	f *fleet

	mu      sync.Mutex
	running map[types.UID]*child.Child
}

func startPods(f *fleet) *pods {
	f.t.Helper()
	n := &pods{f: f, running: map[types.UID]*child.Child{}}
	watcher, err := client.NewWithWatch(cluster.config, client.Options{})
	require.NoError(f.t, err)
	w, err := watcher.Watch(f.t.Context(), &corev1.PodList{}, client.InNamespace(f.ns))
	require.NoError(f.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				assert.NoError(f.t, n.see(f.t.Context(), e.Type, pod))
			}
		}
	}()
	f.t.Cleanup(func() { w.Stop(); <-done; n.end() })
	return n
}

func (n *pods) see(ctx context.Context, what watch.EventType, pod *corev1.Pod) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	process := n.running[pod.UID]
	switch {
	case what == watch.Deleted && process != nil:
		delete(n.running, pod.UID)
		return process.Kill()
	case what == watch.Added && process == nil:
		return n.run(ctx, pod)
	}
	return nil
}

func (n *pods) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, process := range n.running {
		assert.NoError(n.f.t, process.Kill())
	}
}

// run mounts the Secret, starts the process and tells of it.
func (n *pods) run(ctx context.Context, pod *corev1.Pod) error {
	dir := filepath.Join(n.f.dir, "pod-"+string(pod.UID))
	ip := fmt.Sprintf("127.77.%d.%d", len(n.f.ns)%250, 2+len(n.running))
	var secret corev1.Secret
	for { // as the kubelet waits
		err := cluster.admin.Get(ctx, client.ObjectKeyFromObject(pod), &secret)
		if err == nil {
			break
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for key, value := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, key), value, 0o600); err != nil {
			return err
		}
	}
	var args []string
	for _, a := range pod.Spec.Containers[0].Args {
		if a == "--deny-local" {
			continue // all is local here
		}
		a = strings.ReplaceAll(a, "--listen=:", "--listen="+ip+":")
		args = append(args, strings.ReplaceAll(a, "--auth-dir=/etc/proxy-operator/auth", "--auth-dir="+dir))
	}
	process, err := child.Start(child.Command{Name: pod.Name, Path: cluster.binary, Args: args, Log: filepath.Join(dir, "log"), Env: []string{}})
	if err != nil {
		return err
	}
	n.running[pod.UID] = process
	now := metav1.Now()
	raw, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
	}})
	if err != nil {
		return err
	}
	return cluster.admin.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, raw))
}

// A pod is Ready when requests get through it to the judge, as in a cluster.
func TestAPodIsReadyWhenTheJudgeIsReachedThroughIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	startPods(f)
	f.start()
	l := login{"crawler", "password-of-a-pod-7Kq"}
	f.credentials("login", l)
	f.userData("boot", "#cloud-config\n# of-a-pod-1")
	f.create("pod", authFrom("login"), cloudInitFrom("boot"), func(s *v1alpha1.ProxySpec) { s.Provider = "pods" })
	p := f.ready("pod")
	require.True(t, strings.HasPrefix(p.Status.IP, "127.77."), p.Status.IP)
	require.NotEmpty(t, p.Status.ExitIP, "the judge told it")
	requireTraffic(t, p, l)

	f.userData("boot", "#cloud-config\n# of-a-pod-2")
	p = f.replaced(p)
	requireTraffic(t, p, l)
	f.delete("pod")
	f.awaitGone("pod", p.UID)
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}} {
		require.NoError(t, cluster.admin.List(t.Context(), list, client.InNamespace(f.ns), client.HasLabels{"crawl.proxy-operator.io/proxy"}))
		raw, err := json.Marshal(list)
		require.NoError(t, err)
		require.NotContains(t, string(raw), `"px-`, "nothing is left")
	}
}
