// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/proxy-operator/proxy-operator/providers"
)

// Problems that aren't reasons of the kubelet's, and one that stands for several of them.
const (
	problemSecretMissing = "SecretMissing"
	problemFinalizers    = "Finalizers"
	problemImagePull     = "ImagePullBackOff" // also while it is tried again
	problemCrashLoop     = "CrashLoopBackOff" // also while it runs between two crashes
	problemOOMKilled     = "OOMKilled"
)

// readyOnce is how long after the start of a pod its condition Ready must have changed for the last time to tell that it was
// True before: the kubelet writes the first False with the start.
const readyOnce = 10 * time.Second

// instance is the pod as an instance. One that isn't ours has no tags.
func (p *Provider) instance(pod *corev1.Pod) providers.Instance {
	tags, _ := p.tagsOf(pod)
	i := providers.Instance{
		Ref: p.ref(pod), Name: pod.Name, IP: pod.Status.PodIP, Port: portOf(pod), Tags: tags, CreatedAt: pod.CreationTimestamp.UTC(),
	}
	i.State, i.Problem, i.Detail = stateOf(pod)
	i.Overdue = overdue(pod, p.opts.Clock.Now())
	return i
}

// overdue says of a pod that should have been gone what keeps it. Status shows it, so it holds no age.
func overdue(pod *corev1.Pod, now time.Time) string {
	at := pod.DeletionTimestamp
	if at == nil || now.Before(at.Add(overdueAfter)) {
		return ""
	}
	since := fmt.Sprintf("Pod %s/%s should have been gone at %s", pod.Namespace, pod.Name, at.UTC().Format(time.RFC3339))
	if len(pod.Finalizers) > 0 {
		return since + "; finalizers hold it: " + some(pod.Finalizers) + ". Whoever put them there must take them away."
	}
	return fmt.Sprintf("%s; its node, %s, doesn't answer. The operator removes it by force %d minutes after that time.",
		since, pod.Spec.NodeName, int(forceAfter.Minutes()))
}

// some joins a few names; a status has no room for all that somebody may write.
func some(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// stateOf maps the pod's status.
//
// A pod that was ready once goes on to be Running while its container isn't: it restarts, and whether requests get through
// is for the probes to say, who know whether one or all of a node fell, and for the disruption budget.
func stateOf(pod *corev1.Pod) (state providers.InstanceState, problem, detail string) {
	switch phase := pod.Status.Phase; {
	case pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0:
		return providers.StateDeleting, problemFinalizers, "the pod is held by finalizers: " + some(pod.Finalizers)
	case pod.DeletionTimestamp != nil:
		return providers.StateDeleting, "", ""
	case phase == corev1.PodFailed, phase == corev1.PodSucceeded:
		problem, detail = ended(pod)
		return providers.StateTerminated, problem, detail
	case phase == corev1.PodRunning && pod.Status.PodIP != "" && wasReady(pod):
		return providers.StateRunning, "", ""
	default:
		problem, detail = bootProblem(pod)
		return providers.StateProvisioning, problem, detail
	}
}

// wasReady reports whether the pod is ready, or was.
func wasReady(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	if c == nil || pod.Status.StartTime == nil {
		return c != nil && c.Status == corev1.ConditionTrue
	}
	return c.Status == corev1.ConditionTrue || c.LastTransitionTime.After(pod.Status.StartTime.Add(readyOnce))
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for n := range pod.Status.Conditions {
		if pod.Status.Conditions[n].Type == kind {
			return &pod.Status.Conditions[n]
		}
	}
	return nil
}

// ended tells why a pod is over: evicted, or the node went down; its container is restarted for ever otherwise.
func ended(pod *corev1.Pod) (problem, detail string) {
	problem = pod.Status.Reason
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			problem = cmp.Or(problem, s.State.Terminated.Reason)
		}
	}
	return cmp.Or(problem, string(pod.Status.Phase)), pod.Status.Message
}

// bootProblem tells what keeps a pod from running, if anything is known. The code is the same from look to look while the
// cause is.
func bootProblem(pod *corev1.Pod) (problem, detail string) {
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return c.Reason, c.Message
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != containerName {
			continue // a mesh's
		}
		if problem, detail = waiting(s); problem != "" {
			return problem, detail
		}
		if s.RestartCount > 0 && s.LastTerminationState.Terminated != nil {
			return crashed(s)
		}
	}
	return "", ""
}

func waiting(s corev1.ContainerStatus) (problem, detail string) {
	w := s.State.Waiting
	if w == nil {
		return "", ""
	}
	switch w.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return "", ""
	case "CrashLoopBackOff":
		return crashed(s)
	case "ErrImagePull", "ImagePullBackOff":
		return problemImagePull, w.Message
	default:
		return w.Reason, w.Message
	}
}

func crashed(s corev1.ContainerStatus) (problem, detail string) {
	t := cmp.Or(s.LastTerminationState.Terminated, s.State.Terminated)
	switch {
	case t == nil:
		return problemCrashLoop, ""
	case t.Reason == problemOOMKilled:
		return problemOOMKilled, "the container needs more memory than spec.kubernetes.resources.limits allows"
	default:
		return problemCrashLoop, fmt.Sprintf("the container ends with exit code %d (%s)", t.ExitCode, t.Reason)
	}
}

// waitsInVain reports whether the pod would have its Secret by now, if it ever got one: the process that made the pod has
// died before it made the Secret.
func (p *Provider) waitsInVain(pod *corev1.Pod, i providers.Instance) bool {
	return i.State == providers.StateProvisioning && p.opts.Clock.Now().After(pod.CreationTimestamp.Add(halfMadeAfter))
}

// halfMade is a pod that never gets its Secret. It is over: another one is made.
func halfMade(i providers.Instance) providers.Instance {
	i.State, i.Problem, i.Detail = providers.StateTerminated, problemSecretMissing, "the pod waits for a Secret that nobody makes any more"
	return i
}

func portOf(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		if c.Name == containerName && len(c.Ports) > 0 {
			return c.Ports[0].ContainerPort
		}
	}
	return 0
}
