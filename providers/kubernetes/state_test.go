// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/providers"
)

func apiequal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// TestAPodThatDoesNotGoTellsWhatKeepsIt: by its condition, not in the operator's log alone.
func TestAPodThatDoesNotGoTellsWhatKeepsIt(t *testing.T) {
	deadline := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const since = "Pod crawl/px-1 should have been gone at 2026-11-29T12:00:00Z; "
	cases := map[string]struct {
		why        string
		deleted    bool
		finalizers []string
		after      time.Duration
		want       string
	}{
		"one that nobody deleted": {"it is to stay", false, nil, time.Hour, ""},
		"one within its time":     {"it ends as pods do", true, []string{"a.example.com/x"}, overdueAfter - time.Second, ""},
		"one with a finalizer": {
			"whoever put it there must act", true, []string{"a.example.com/x"}, overdueAfter,
			since + "finalizers hold it: a.example.com/x. Whoever put them there must take them away.",
		},
		"one with many finalizers": {
			"a status has no room for all", true, []string{"a/1", "a/2", "a/3", "a/4", "a/5"}, overdueAfter,
			since + "finalizers hold it: a/1, a/2, a/3 and 2 more. Whoever put them there must take them away.",
		},
		"one on a node that is lost": {
			"the operator acts, and says when", true, nil, overdueAfter,
			since + "its node, node-1, doesn't answer. The operator removes it by force 5 minutes after that time.",
		},
		"the same, hours later": {
			"equal states give equal bytes", true, nil, 9 * time.Hour,
			since + "its node, node-1, doesn't answer. The operator removes it by force 5 minutes after that time.",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "crawl", Name: "px-1", Finalizers: c.finalizers}, Spec: corev1.PodSpec{NodeName: "node-1"}}
			if c.deleted {
				pod.DeletionTimestamp = &metav1.Time{Time: deadline}
			}
			require.Equal(t, c.want, overdue(pod, deadline.Add(c.after)), c.why)
		})
	}
}

// What kubelets and schedulers write into a pod's status, less what nobody reads here.
func TestStateOf(t *testing.T) {
	const running, provisioning, terminated = providers.StateRunning, providers.StateProvisioning, providers.StateTerminated
	cases := map[string]struct {
		why     string
		status  string
		state   providers.InstanceState
		problem string
		detail  string
	}{
		"just made": {"no scheduler has seen it", `{phase: Pending}`, provisioning, "", ""},
		"a container that is being made": {
			"all is well", `{phase: Pending, containerStatuses: [{name: proxy, state: {waiting: {reason: ContainerCreating}}}]}`, provisioning, "", "",
		},
		"unschedulable": {
			"the user must see what the scheduler says",
			`{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available"}]}`,
			provisioning, "Unschedulable", "0/3 nodes are available",
		},
		"an image that can't be pulled": {
			"the user must see it",
			`{phase: Pending, containerStatuses: [{name: proxy, state: {waiting: {reason: ErrImagePull, message: "not found"}}}]}`,
			provisioning, "ImagePullBackOff", "not found",
		},
		"an image that is tried again later": {
			"it is the same problem, and must look the same",
			`{phase: Pending, containerStatuses: [{name: proxy, state: {waiting: {reason: ImagePullBackOff, message: "Back-off pulling"}}}]}`,
			provisioning, "ImagePullBackOff", "Back-off pulling",
		},
		"the name of no image": {
			"the user must see it",
			`{phase: Pending, containerStatuses: [{name: proxy, state: {waiting: {reason: InvalidImageName, message: "couldn't parse"}}}]}`,
			provisioning, "InvalidImageName", "couldn't parse",
		},
		"an image that runs as root": {
			"the user must see it",
			`{phase: Pending, containerStatuses: [{name: proxy, state: {waiting: {reason: CreateContainerConfigError, message: "image will run as root"}}}]}`,
			provisioning, "CreateContainerConfigError", "image will run as root",
		},
		"a crash loop that waits": {
			"the user must see it",
			`{phase: Running, podIP: 10.0.0.1, containerStatuses: [{name: proxy, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff, message: "back-off 40s"}}, lastState: {terminated: {exitCode: 2, reason: Error}}}]}`,
			provisioning, "CrashLoopBackOff", "the container ends with exit code 2 (Error)",
		},
		"a crash loop that runs for a moment": {
			"it must look the same, or the status is written with every crash",
			`{phase: Running, podIP: 10.0.0.1, containerStatuses: [{name: proxy, restartCount: 3, state: {running: {}}, lastState: {terminated: {exitCode: 2, reason: Error}}}]}`,
			provisioning, "CrashLoopBackOff", "the container ends with exit code 2 (Error)",
		},
		"out of memory": {
			"the user must see what to change",
			`{phase: Running, podIP: 10.0.0.1, containerStatuses: [{name: proxy, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`,
			provisioning, "OOMKilled", "the container needs more memory than spec.kubernetes.resources.limits allows",
		},
		"another container's trouble": {
			"a mesh's container isn't the proxy",
			`{phase: Pending, containerStatuses: [{name: mesh, state: {waiting: {reason: ErrImagePull}}}]}`, provisioning, "", "",
		},
		"running and not ready yet": {
			"the port isn't served",
			`{phase: Running, podIP: 10.0.0.1, startTime: "2026-08-07T12:00:00Z", conditions: [{type: Ready, status: "False", lastTransitionTime: "2026-08-07T12:00:01Z"}]}`,
			provisioning, "", "",
		},
		"ready": {
			"this is what is waited for",
			`{phase: Running, podIP: 10.0.0.1, startTime: "2026-08-07T12:00:00Z", conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-08-07T12:00:03Z"}]}`,
			running, "", "",
		},
		"ready without an address": {
			"nobody could use it", `{phase: Running, conditions: [{type: Ready, status: "True"}]}`, provisioning, "", "",
		},
		"not ready any more": {
			"a node that restarts takes all its pods down for a moment; the probes judge, and the budget holds",
			`{phase: Running, podIP: 10.0.0.1, startTime: "2026-08-07T12:00:00Z", conditions: [{type: Ready, status: "False", lastTransitionTime: "2026-08-07T13:00:00Z"}]}`,
			running, "", "",
		},
		"not ready any more, and crashing": {
			"the same",
			`{phase: Running, podIP: 10.0.0.1, startTime: "2026-08-07T12:00:00Z", conditions: [{type: Ready, status: "False", lastTransitionTime: "2026-08-07T13:00:00Z"}], containerStatuses: [{name: proxy, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}}]}`,
			running, "", "",
		},
		"evicted": {
			"it never comes back, and is replaced", `{phase: Failed, reason: Evicted, message: "The node was low on resource: memory."}`,
			terminated, "Evicted", "The node was low on resource: memory.",
		},
		"failed without a reason": {
			"the same", `{phase: Failed, containerStatuses: [{name: proxy, state: {terminated: {reason: Error, exitCode: 1}}}]}`, terminated, "Error", "",
		},
		"succeeded": {"the same", `{phase: Succeeded}`, terminated, "Succeeded", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(c.status), &pod.Status))
			state, problem, detail := stateOf(pod)
			require.Equal(t, c.state, state, c.why)
			require.Equal(t, c.problem, problem, c.why)
			require.Equal(t, c.detail, detail, c.why)
			now := pod.CreationTimestamp
			pod.DeletionTimestamp = &now
			state, problem, _ = stateOf(pod)
			require.Equal(t, providers.StateDeleting, state, "whatever else is wrong with it")
			require.Empty(t, problem)
		})
	}
}
