// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	pods    = "pods"
	secrets = "secrets"
	// Of Secrets only the metadata is ever read.
	metadataOf     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataListOf = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// api is the API server: each method is one request, sent once. The typed clients would send it again by themselves, up to
// ten times, whatever the account's budget.
type api struct {
	rest  rest.Interface
	clock clock.PassiveClock
}

func connect(cluster *rest.Config, c clock.PassiveClock) (api, error) {
	cfg := rest.CopyConfig(cluster)
	cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	cfg.WarningHandler = rest.NoWarnings{} // about what users write: the API server tells them when they apply it
	cfg.QPS, cfg.RateLimiter = -1, nil     // the account's guards pace the calls, and never wait in a worker
	r, err := rest.RESTClientFor(cfg)
	return api{r, c}, err
}

// bounded makes the API server give up when the caller does, so that nothing takes effect later.
func (a api) bounded(ctx context.Context, r *rest.Request) *rest.Request {
	if end, ok := ctx.Deadline(); ok {
		if left := end.Sub(a.clock.Now()); left > 0 {
			r = r.Timeout(left.Round(time.Millisecond))
		}
	}
	return r.MaxRetries(0)
}

func (a api) createPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	out := &corev1.Pod{}
	return out, a.bounded(ctx, a.rest.Post()).Namespace(pod.Namespace).Resource(pods).Body(pod).Do(ctx).Into(out)
}

func (a api) createSecret(ctx context.Context, s *corev1.Secret) error {
	return a.bounded(ctx, a.rest.Post()).Namespace(s.Namespace).Resource(secrets).Body(s).Do(ctx).Error()
}

func (a api) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	out := &corev1.Pod{}
	return out, a.bounded(ctx, a.rest.Get()).Namespace(namespace).Resource(pods).Name(name).Do(ctx).Into(out)
}

func (a api) secret(ctx context.Context, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	out := &metav1.PartialObjectMetadata{}
	return out, into(out, a.bounded(ctx, a.rest.Get()).Namespace(namespace).Resource(secrets).Name(name).SetHeader("Accept", metadataOf).Do(ctx))
}

// remove deletes one object, and no other that got its name meanwhile. force: without waiting for the kubelet.
func (a api) remove(ctx context.Context, resource string, o metav1.Object, force bool) error {
	opts := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(o.GetUID())}}
	if force {
		opts.GracePeriodSeconds = ptr.To[int64](0)
	}
	return a.bounded(ctx, a.rest.Delete()).Namespace(o.GetNamespace()).Resource(resource).Name(o.GetName()).Body(opts).Do(ctx).Error()
}

// podPage returns one page, and where the next begins; "" is the end.
func (a api) podPage(ctx context.Context, namespace string, opts metav1.ListOptions) ([]corev1.Pod, string, error) {
	var list corev1.PodList
	err := a.page(ctx, namespace, pods, opts).Do(ctx).Into(&list)
	return list.Items, list.Continue, err
}

func (a api) secretPage(ctx context.Context, namespace string, opts metav1.ListOptions) ([]metav1.PartialObjectMetadata, string, error) {
	var list metav1.PartialObjectMetadataList
	err := into(&list, a.page(ctx, namespace, secrets, opts).SetHeader("Accept", metadataListOf).Do(ctx))
	return list.Items, list.Continue, err
}

// into decodes metadata, which the client's own decoder doesn't know.
func into(out any, res rest.Result) error {
	if err := res.Error(); err != nil { // before Raw, which doesn't read what the API server says
		return err
	}
	raw, err := res.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

func (a api) page(ctx context.Context, namespace, resource string, opts metav1.ListOptions) *rest.Request {
	return a.bounded(ctx, a.rest.Get()).NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&opts, scheme.ParameterCodec)
}

// ownedBy reports whether the object says that it belongs to the pod with that UID.
func ownedBy(o metav1.Object, pod types.UID) bool {
	for _, r := range o.GetOwnerReferences() {
		if r.UID == pod {
			return true
		}
	}
	return false
}
