// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

// jobs is a test double of the Job controller and of a kubelet: it runs the binary with the arguments of each Job and each pod of a
// test, as the ServiceAccount of its pod and with no other rights, and writes the outcome to its status.
type jobs struct {
	t     *testing.T
	extra []string // more arguments for each
	seen  map[types.UID]bool

	mu     sync.Mutex
	output []string
	failed bool
}

// runJobs works until the test ends.
func runJobs(t *testing.T, extra ...string) *jobs {
	t.Helper()
	j := &jobs{t: t, extra: extra, seen: map[types.UID]bool{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				j.look(ctx)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return j
}

func (j *jobs) look(ctx context.Context) {
	var all batchv1.JobList
	if !assert.NoError(j.t, ignoreEnded(ctx, cluster.admin.List(ctx, &all))) {
		return
	}
	for i := range all.Items {
		if job := &all.Items[i]; !j.seen[job.UID] {
			j.seen[job.UID] = true
			ok := j.run(ctx, job.Namespace, &job.Spec.Template.Spec)
			assert.NoError(j.t, ignoreEnded(ctx, finishJob(ctx, job, ok)))
		}
	}
	var pods corev1.PodList
	if !assert.NoError(j.t, ignoreEnded(ctx, cluster.admin.List(ctx, &pods, client.MatchingLabels{"app.kubernetes.io/component": "test"}))) {
		return
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; !j.seen[pod.UID] {
			j.seen[pod.UID] = true
			pod.Status.Phase = corev1.PodFailed
			if j.run(ctx, pod.Namespace, &pod.Spec) {
				pod.Status.Phase = corev1.PodSucceeded
			}
			assert.NoError(j.t, ignoreEnded(ctx, client.IgnoreNotFound(cluster.admin.Status().Update(ctx, pod))))
		}
	}
}

// ignoreEnded drops the error of a call that the end of the test cut short.
func ignoreEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// run runs a pod's container.
func (j *jobs) run(ctx context.Context, namespace string, pod *corev1.PodSpec) bool {
	kubeconfig, err := kubeconfigOf(ctx, namespace, pod.ServiceAccountName)
	if !assert.NoError(j.t, err) {
		return false
	}
	args := slices.Concat(pod.Containers[0].Args, []string{"--kubeconfig=" + kubeconfig}, j.extra)
	out, err := exec.CommandContext(ctx, cluster.binary, args...).CombinedOutput()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.output = append(j.output, string(out))
	j.failed = j.failed || err != nil
	return err == nil
}

// said is all that was written.
func (j *jobs) said() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.output, "")
}

func finishJob(ctx context.Context, job *batchv1.Job, ok bool) error {
	now := metav1.Now()
	job.Status.StartTime = &now
	kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if ok {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
	} else {
		job.Status.Failed = 1
		kinds = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	}
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	for _, k := range kinds {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: k, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return client.IgnoreNotFound(cluster.admin.Status().Update(ctx, job))
}

// kubeconfigOf is that of a ServiceAccount, with the token that a kubelet would mount.
func kubeconfigOf(ctx context.Context, namespace, name string) (string, error) {
	token, err := apiserver.Token(ctx, cluster.admin, namespace, name)
	if err != nil {
		return "", err
	}
	return apiserver.WriteKubeconfig(cluster.dir, cluster.config, token)
}

func (j *jobs) requireSucceeded() {
	j.t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	require.NotEmpty(j.t, j.output, "no Job ran")
	require.False(j.t, j.failed, j.output)
}
