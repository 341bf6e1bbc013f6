// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	opGet  = "get instance"
	opList = "list instances"
	// listTries bounds how often a list begins anew because the API server has forgotten the state that its first pages
	// were of.
	listTries = 3
)

// Get reads the pod; where there is none, the Secret that may be left of it.
func (p *Provider) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	namespace, podName, err := p.find(opGet, ref)
	if err != nil {
		return providers.Instance{}, err
	}
	pod, err := p.api.pod(ctx, namespace, podName)
	if notFound(err) {
		return p.getSecret(ctx, ref, namespace, podName)
	}
	if err != nil {
		return providers.Instance{}, classed(opGet, err, false)
	}
	i := p.instance(pod)
	if i.Tags, _, err = p.podTags(ctx, pod); err != nil {
		return providers.Instance{}, classed(opGet, err, false)
	}
	if !p.waitsInVain(pod, i) {
		return i, nil
	}
	if _, err = p.api.secret(ctx, namespace, podName); notFound(err) {
		return halfMade(i), nil
	}
	if err != nil {
		return providers.Instance{}, classed(opGet, err, false)
	}
	return i, nil
}

func (p *Provider) getSecret(ctx context.Context, ref providers.Ref, namespace, secretName string) (providers.Instance, error) {
	s, err := p.api.secret(ctx, namespace, secretName)
	if notFound(err) {
		return providers.Instance{}, providers.Gone(opGet, ref)
	}
	if err != nil {
		return providers.Instance{}, classed(opGet, err, false)
	}
	i, ours := p.leftover(s)
	if !ours {
		return providers.Instance{}, providers.Gone(opGet, ref)
	}
	return i, nil
}

// ListByTag lists the pods of the account in the watched namespaces, and the Secrets of which no pod is left. Secrets come
// first: a pod is made before its Secret, so the pod of each is listed if it is there.
func (p *Provider) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	found := []providers.Instance{}
	if sel.Installation == "" {
		return found, nil
	}
	namespaces := p.opts.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, ns := range namespaces {
		some, err := p.listIn(ctx, ns, sel)
		if err != nil {
			return nil, listFailed(ns, err)
		}
		found = append(found, some...)
	}
	return found, nil
}

// listFailed classes what kept a namespace from being listed. One that refuses stops all: what is in it may be anybody's machine,
// and a list without it would call them gone. So the user is told which one it is.
func listFailed(namespace string, err error) error {
	e := classed(opList, err, false)
	switch {
	case e.Class != providers.Denied:
	case namespace == metav1.NamespaceAll:
		e.Advice = "the operator may not list the pods and Secrets of all namespaces; apply the ClusterRole of config/rbac and its binding, or name namespaces in --watch-namespaces."
	default:
		e.Advice = fmt.Sprintf("the operator may not list the pods and Secrets of namespace %s: its Role or RoleBinding there is missing, or the namespace is gone and they with it. "+
			"Apply those of config/namespaced there, or take %s out of --watch-namespaces. Until then the operator sees no machine of the account, in no namespace.", namespace, namespace)
	}
	return e
}

func inNamespace(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return ""
	}
	return " in namespace " + namespace
}

func (p *Provider) listIn(ctx context.Context, namespace string, sel providers.Selector) ([]providers.Instance, error) {
	left := map[types.NamespacedName]*metav1.PartialObjectMetadata{}
	err := pages(p.options(sel), func(opts metav1.ListOptions) (string, error) {
		page, next, err := p.api.secretPage(ctx, namespace, opts)
		for n := range page {
			if i, ours := p.leftover(&page[n]); ours && sel.Matches(i.Tags) {
				left[nameOf(&page[n])] = &page[n]
			}
		}
		return next, err
	}, func() { clear(left) })
	if err != nil {
		return nil, fmt.Errorf("list secrets%s: %w", inNamespace(namespace), err)
	}
	var found []providers.Instance
	seen := map[types.NamespacedName]bool{}
	err = pages(p.options(sel), func(opts metav1.ListOptions) (string, error) {
		page, next, err := p.api.podPage(ctx, namespace, opts)
		for n := range page {
			if i, ours := p.listed(&page[n], left); ours && sel.Matches(i.Tags) && !seen[nameOf(&page[n])] {
				found = append(found, i)
				seen[nameOf(&page[n])] = true
			}
		}
		return next, err
	}, func() { found = nil; clear(seen) })
	if err != nil {
		return nil, fmt.Errorf("list pods%s: %w", inNamespace(namespace), err)
	}
	for name, s := range left {
		if i, _ := p.leftover(s); !seen[name] {
			found = append(found, i)
		}
	}
	return found, nil
}

func (p *Provider) options(sel providers.Selector) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: p.selector(sel), Limit: p.pageSize}
}

// pages reads page after page. When the API server no longer knows what the next page is of, all begins anew: a part is
// never returned as the whole.
func pages(opts metav1.ListOptions, page func(metav1.ListOptions) (next string, err error), anew func()) error {
	for try := 1; ; {
		next, err := page(opts)
		switch {
		case apierrors.IsResourceExpired(err) && try < listTries:
			try++
			opts.Continue = ""
			anew()
			continue
		case err != nil:
			return err
		case next == "":
			return nil
		}
		opts.Continue = next
	}
}

// listed is the pod as an instance, if it is one; left are the Secrets.
func (p *Provider) listed(pod *corev1.Pod, left map[types.NamespacedName]*metav1.PartialObjectMetadata) (providers.Instance, bool) {
	secret, i := left[nameOf(pod)], p.instance(pod)
	var ours bool
	if i.Tags, ours = p.tagsBeside(pod, secret); !ours {
		return providers.Instance{}, false
	}
	if secret == nil && p.waitsInVain(pod, i) {
		return halfMade(i), true
	}
	return i, true
}

// podTags returns the record of a pod; ours is false for somebody else's.
func (p *Provider) podTags(ctx context.Context, pod *corev1.Pod) (tags providers.Tags, ours bool, err error) {
	if tags, ours = p.tagsOf(pod); ours {
		return tags, true, nil
	}
	s, err := p.api.secret(ctx, pod.Namespace, pod.Name)
	if notFound(err) {
		return providers.Tags{}, false, nil
	}
	if err != nil {
		return providers.Tags{}, false, err
	}
	tags, ours = p.tagsBeside(pod, s)
	return tags, ours, nil
}

// tagsBeside returns the record of a pod; where somebody wiped it, that of the Secret of the same name, which we made for the
// pod with this very UID. secret may be nil.
func (p *Provider) tagsBeside(pod *corev1.Pod, secret *metav1.PartialObjectMetadata) (providers.Tags, bool) {
	tags, ours := p.tagsOf(pod)
	if ours || secret == nil || !ownedBy(secret, pod.UID) {
		return tags, ours
	}
	return p.tagsOf(secret)
}

// leftover is the instance of which only the Secret is left.
func (p *Provider) leftover(s *metav1.PartialObjectMetadata) (providers.Instance, bool) {
	tags, ours := p.tagsOf(s)
	return providers.Instance{
		Ref: p.ref(s), Name: s.Name, State: providers.StateTerminated, Tags: tags, CreatedAt: s.CreationTimestamp.UTC(), Problem: "PodGone",
	}, ours
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
