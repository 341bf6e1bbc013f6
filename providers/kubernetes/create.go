// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/proxy-operator/proxy-operator/providers"
)

const opCreate = "create instance"

// Create makes the pod, then its Secret, for which the kubelet waits. A repeat returns the pod of the first call, and makes
// the Secret if it is missing. Where the Secret is refused the pod is taken back.
func (p *Provider) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	if err := req.Consistent(opCreate, p.account); err != nil {
		return providers.Instance{}, err
	}
	if err := p.Check(req); err != nil {
		return providers.Instance{}, err
	}
	pod, err := p.api.createPod(ctx, buildPod(p.account, p.image, req))
	switch {
	case apierrors.IsAlreadyExists(err):
		return p.repeat(ctx, req)
	case err != nil:
		return providers.Instance{}, refusal(err, req)
	}
	if err := p.ensureSecret(ctx, req, pod); err != nil {
		return providers.Instance{}, p.undo(ctx, pod, err)
	}
	return p.instance(pod), nil
}

// repeat answers a create whose name is taken: by the pod of an earlier call, or by something that isn't ours.
func (p *Provider) repeat(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	pod, err := p.api.pod(ctx, req.Tags.Namespace, req.Name)
	switch {
	case notFound(err): // it has just gone
		return providers.Instance{}, &providers.Error{Class: providers.Transient, Op: opCreate, Err: err, Answered: true}
	case err != nil:
		return providers.Instance{}, unsure(err)
	}
	tags, ours, err := p.podTags(ctx, pod)
	switch {
	case err != nil:
		return providers.Instance{}, unsure(err)
	case !ours || tags != req.Tags:
		return providers.Instance{}, providers.Conflict(opCreate, req.Name)
	}
	if pod.DeletionTimestamp == nil {
		if err := p.ensureSecret(ctx, req, pod); err != nil {
			return providers.Instance{}, unsure(err) // the pod is there
		}
	}
	i := p.instance(pod)
	i.Tags = tags
	return i, nil
}

// ensureSecret makes the Secret of a pod. One that an earlier pod of the same name has left goes first: the garbage
// collector is after it.
func (p *Provider) ensureSecret(ctx context.Context, req providers.CreateRequest, pod *corev1.Pod) error {
	err := p.api.createSecret(ctx, buildSecret(p.account, req, pod))
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := p.api.secret(ctx, pod.Namespace, pod.Name)
	if err == nil {
		if tags, ok := p.tagsOf(old); !ok || tags != req.Tags {
			return providers.Conflict(opCreate, req.Name)
		}
		if ownedBy(old, pod.UID) {
			return nil
		}
		err = p.api.remove(ctx, secrets, old, false)
	}
	if err != nil && !notFound(err) {
		return err
	}
	return p.api.createSecret(ctx, buildSecret(p.account, req, pod))
}

// undo takes the pod back, so that the class of err can promise that nothing was made. It waits for a Secret, so nothing
// runs in it.
func (p *Provider) undo(ctx context.Context, pod *corev1.Pod, err error) error {
	if !certain(err) {
		return unsure(err)
	}
	if undoErr := p.api.remove(ctx, pods, pod, true); undoErr != nil && !notFound(undoErr) {
		return unsure(errors.Join(err, undoErr))
	}
	return refusal(err, providers.CreateRequest{})
}

// unsure marks an error after which something may be there.
func unsure(err error) error {
	return &providers.Error{Class: providers.Ambiguous, Op: opCreate, Code: codeOf(err), Err: err}
}
