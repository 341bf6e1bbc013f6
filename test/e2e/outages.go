// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// outages are what befalls the node and the operator itself.
func (s *suite) outages(ctx context.Context) {
	s.check(ctx, "a proxy that hangs is found by its probes and replaced", s.hang)
	s.check(ctx, "kubelet and containerd are restarted: every proxy goes on", s.restartNode)
	s.check(ctx, "every container is killed: every proxy comes back", s.killContainers)
	s.check(ctx, "of two replicas the other takes over when the leader is killed, and makes what is missing", s.handOver)
}

// restartNode kills the node's own programs, which are started again. Containers live on.
func (s *suite) restartNode(ctx context.Context) error {
	before, err := s.uids(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(killAll("kubelet"), killAll("containerd")); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.nodeReady); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.available); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.settled(crawl, size)); err != nil {
		return err
	}
	after, err := s.uids(ctx)
	if err != nil {
		return err
	}
	for uid := range before {
		if !after[uid] {
			return fmt.Errorf("pod %s was replaced", uid)
		}
	}
	return s.through("http", http.StatusOK, nil)(ctx)
}

// nodeReady is nil once the kubelet has told so after its start.
func (s *suite) nodeReady(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := s.kube.List(ctx, &nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s: %s", node.Name, c.Message)
			}
		}
	}
	return s.command(ctx, "ctr", "version")
}

// killContainers kills the first process of every container, those of the operator and of its judge among them.
func (s *suite) killContainers(ctx context.Context) error {
	if err := killAll("proxy-operator"); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.restarted); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.available); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.settled(crawl, size)); err != nil {
		return err
	}
	return s.eventually(ctx, s.through("http", http.StatusOK, nil))
}

// restarted is nil once every container of the fleet has been started again.
func (s *suite) restarted(ctx context.Context) error {
	pods, err := s.machines(ctx, crawl)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount == 0 || !c.Ready {
				return fmt.Errorf("pod %s: started again %d times, ready: %t", pod.Name, c.RestartCount, c.Ready)
			}
		}
	}
	return nil
}

// killAll kills all processes of a name. Here only those of the node are seen.
func killAll(name string) error {
	found, err := processes(func(dir string) bool { return commandOf(dir) == name })
	if err == nil && len(found) == 0 {
		err = errors.New("there is none")
	}
	for _, pid := range found {
		if killed := syscall.Kill(pid, syscall.SIGKILL); killed != nil && !errors.Is(killed, syscall.ESRCH) {
			err = errors.Join(err, killed)
		}
	}
	if err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	return nil
}

// processes lists those that are picked by their folder in /proc.
func processes(pick func(dir string) bool) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, dir := range dirs {
		if !pick(dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	return found, nil
}

// commandOf is the name of a process, empty if it has ended.
func commandOf(dir string) string {
	text, err := os.ReadFile(filepath.Join(filepath.Clean(dir), "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// isOf reports whether a process is one of the pod's, by its cgroup.
func isOf(pod *corev1.Pod, dir string) bool {
	text, err := os.ReadFile(filepath.Join(filepath.Clean(dir), "cgroup"))
	return err == nil && strings.Contains(string(text), string(pod.UID))
}

// hang stops the process of a proxy. Its port still takes connections, so that a kubelet finds nothing wrong.
func (s *suite) hang(ctx context.Context) error {
	const name = "hangs"
	p := proxy(crawl, name, func(spec *v1alpha1.ProxySpec) {
		spec.HealthCheck = &v1alpha1.HealthCheck{
			Interval: &metav1.Duration{Duration: 5 * time.Second}, Timeout: &metav1.Duration{Duration: 2 * time.Second},
			FailureThreshold: ptr.To[int32](2), ReplaceAfter: &metav1.Duration{Duration: 30 * time.Second},
		}
	})
	if err := s.create(ctx, p); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.settled(crawl, size+1)); err != nil {
		return err
	}
	old, err := s.machine(ctx, crawl, name)
	if err != nil {
		return err
	}
	found, err := processes(func(dir string) bool { return commandOf(dir) == "proxy-operator" && isOf(old, dir) })
	if err != nil || len(found) != 1 {
		return errors.Join(err, fmt.Errorf("pod %s has processes %v, not one", old.Name, found))
	}
	if err := syscall.Kill(found[0], syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the proxy: %w", err)
	}
	if err := s.eventually(ctx, s.says(crawl, name, "Healthy=False")); err != nil {
		return err
	}
	err = s.eventually(ctx, func(ctx context.Context) error {
		now, err := s.machine(ctx, crawl, name)
		if err == nil && now.UID == old.UID {
			err = errors.New("the pod that hangs is still there")
		}
		return errors.Join(err, s.settled(crawl, size+1)(ctx))
	})
	return errors.Join(err, s.kube.Delete(ctx, p), s.eventually(ctx, s.settled(crawl, size)))
}

func (s *suite) handOver(ctx context.Context) error {
	if err := s.scale(ctx, 2); err != nil {
		return err
	}
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	// No time to hand over: the other has to wait until the lease is over.
	now := client.GracePeriodSeconds(0)
	if err := s.kube.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: leader}}, now); err != nil {
		return err
	}
	if err := s.create(ctx, proxy(crawl, "after-hand-over")); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.settled(crawl, size+1)); err != nil {
		return err
	}
	next, err := s.leader(ctx)
	if err != nil {
		return err
	}
	if next == leader {
		return fmt.Errorf("%s still leads", leader)
	}
	if err := s.kube.Delete(ctx, proxy(crawl, "after-hand-over")); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.settled(crawl, size)); err != nil {
		return err
	}
	return s.scale(ctx, 1)
}

func (s *suite) scale(ctx context.Context, replicas int32) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: manager}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if err := s.kube.Patch(ctx, d, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	return s.eventually(ctx, s.available)
}

// leader is the pod that holds the operator's lease.
func (s *suite) leader(ctx context.Context) (string, error) {
	var leases coordinationv1.LeaseList
	if err := s.kube.List(ctx, &leases, client.InNamespace(system)); err != nil {
		return "", err
	}
	for _, lease := range leases.Items {
		if !strings.HasPrefix(lease.Name, "proxy-operator") {
			continue
		}
		pod, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		if pod == "" {
			return "", errors.New("nobody leads")
		}
		return pod, nil
	}
	return "", errors.New("there is no lease")
}
