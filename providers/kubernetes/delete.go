// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/proxy-operator/proxy-operator/providers"
)

const opDelete = "delete instance"

// Delete removes the Secret, then the pod: what is left after a crash in between is a pod, which everybody finds. It leaves
// nothing to the garbage collector, which may be slow, or off. A pod whose node is lost, so that nobody tells of its end, is
// removed without waiting for that when it is overdue for forceAfter. One that somebody's finalizers hold stays: force doesn't
// help there, and what they wait for is that somebody's business.
func (p *Provider) Delete(ctx context.Context, ref providers.Ref) error {
	namespace, podName, err := p.find(opDelete, ref)
	if err != nil {
		return err
	}
	pod, err := p.api.pod(ctx, namespace, podName)
	gone := notFound(err)
	if err != nil && !gone {
		return classed(opDelete, err, false) // a read: nothing was changed
	}
	if !gone {
		_, ours, err := p.podTags(ctx, pod)
		switch _, recorded := p.tagsOf(pod); {
		case err != nil:
			return classed(opDelete, err, false)
		case !ours:
			return providers.Conflict(opDelete, podName)
		case !recorded: // its Secret is all that tells whose it is, so it stays until the pod is gone
			return p.removePod(ctx, pod)
		}
	}
	removed, err := p.removeSecret(ctx, namespace, podName)
	switch {
	case err != nil:
		return classed(opDelete, err, true)
	case gone && removed:
		return nil
	case gone:
		return providers.Gone(opDelete, ref)
	}
	return p.removePod(ctx, pod)
}

// removeSecret removes the instance's Secret, and reports whether there was one. One that isn't ours stays.
func (p *Provider) removeSecret(ctx context.Context, namespace, secretName string) (bool, error) {
	s, err := p.api.secret(ctx, namespace, secretName)
	if notFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, ours := p.tagsOf(s); !ours {
		return false, nil
	}
	if err := p.api.remove(ctx, secrets, s, false); err != nil && !notFound(err) {
		return false, err
	}
	return true, nil
}

// removePod asks the pod to go, once; and makes it go when it is long overdue.
func (p *Provider) removePod(ctx context.Context, pod *corev1.Pod) error {
	force := pod.DeletionTimestamp != nil && p.opts.Clock.Now().After(pod.DeletionTimestamp.Add(forceAfter))
	switch {
	case pod.DeletionTimestamp != nil && !force:
		return nil
	case force && len(pod.Finalizers) > 0:
		p.opts.Log.Info("A pod that is to go is held by finalizers: whoever put them there must take them away",
			"namespace", pod.Namespace, "pod", pod.Name, "finalizers", pod.Finalizers, "since", pod.DeletionTimestamp.Time)
		return nil
	case force:
		p.opts.Log.Info("Remove a pod whose end nobody tells of: its node is lost; the kubelet ends what may still run there when it comes back",
			"namespace", pod.Namespace, "pod", pod.Name, "node", pod.Spec.NodeName, "since", pod.DeletionTimestamp.Time)
	}
	if err := p.api.remove(ctx, pods, pod, force); err != nil && !notFound(err) {
		return classed(opDelete, err, true)
	}
	return nil
}
