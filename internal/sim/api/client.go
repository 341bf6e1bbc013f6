// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// Client talks to the server itself: its reads are live.
type Client struct{ s *Server }

var _ client.Client = Client{}

// Client returns a client without a cache.
func (s *Server) Client() Client { return Client{s} }

var errUnknown = errors.New("the model API server doesn't do this")

// Get implements client.Reader.
func (c Client) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	k, err := kindOf(o)
	if err != nil {
		return err
	}
	return read(k, c.s.objects[k], key, o)
}

// List implements client.Reader for Proxies.
func (c Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return listProxies(c.s.objects[Proxies], list, opts)
}

// Create implements client.Writer.
func (c Client) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return c.s.create(o)
}

// Delete implements client.Writer.
func (c Client) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.s.remove(o, (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions)
}

// Update implements client.Writer.
func (c Client) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.replace(o, func(old, n client.Object) { keepStatus(old, n) })
}

func (c Client) replace(o client.Object, keep func(old, n client.Object)) error {
	k, old, err := c.s.find(o)
	if err != nil {
		return err
	}
	if k == Proxies && o.GetResourceVersion() == "" {
		return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Proxy").GroupKind(), o.GetName(), nil)
	}
	if o.GetUID() != "" && o.GetUID() != old.GetUID() {
		return apierrors.NewConflict(k.resource(), o.GetName(), fmt.Errorf("the UID is not that of the object"))
	}
	if err := locked(k, old, o.GetResourceVersion()); err != nil {
		return err
	}
	n := copyOf(o)
	keep(old, n)
	return c.s.update(k, old, n, o)
}

// Patch implements client.Writer for merge patches.
func (c Client) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.patch(o, p, keepStatus)
}

func (c Client) patch(o client.Object, p client.Patch, keep func(old, n client.Object)) error {
	k, old, err := c.s.find(o)
	if err != nil {
		return err
	}
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	n := copyOf(old)
	if err := merge(n, p.Type(), data); err != nil {
		return err
	}
	if err := locked(k, old, n.GetResourceVersion()); err != nil {
		return err
	}
	keep(old, n)
	if n.GetUID() != old.GetUID() {
		return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Proxy").GroupKind(), o.GetName(), nil)
	}
	return c.s.update(k, old, n, o)
}

// keepStatus is what a write of the object itself does to its status: nothing.
func keepStatus(old, n client.Object) {
	was, ok := old.(*v1alpha1.Proxy)
	if is, same := n.(*v1alpha1.Proxy); ok && same {
		was.Status.DeepCopyInto(&is.Status)
	}
}

// keepAllButStatus is what a write of the status does to everything else: nothing.
func keepAllButStatus(old, n client.Object) {
	was, ok := old.(*v1alpha1.Proxy)
	if is, same := n.(*v1alpha1.Proxy); ok && same {
		was.Spec.DeepCopyInto(&is.Spec)
		was.ObjectMeta.DeepCopyInto(&is.ObjectMeta)
	}
}

// Status implements client.StatusClient.
func (c Client) Status() client.SubResourceWriter { return status{c} }

// SubResource implements client.SubResourceClientConstructor; there is only status.
func (c Client) SubResource(string) client.SubResourceClient { return status{c} }

// DeleteAllOf implements client.Writer; the operator must not use it.
func (c Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errUnknown
}

// Apply implements client.Writer; the operator doesn't use it.
func (c Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errUnknown
}

// Scheme implements client.Client.
func (c Client) Scheme() *runtime.Scheme { return nil }

// RESTMapper implements client.Client.
func (c Client) RESTMapper() meta.RESTMapper { return nil }

// GroupVersionKindFor implements client.Client.
func (c Client) GroupVersionKindFor(runtime.Object) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{}, errUnknown
}

// IsObjectNamespaced implements client.Client.
func (c Client) IsObjectNamespaced(o runtime.Object) (bool, error) {
	_, cluster := o.(*corev1.Namespace)
	return !cluster, nil
}

// status writes the status subresource.
type status struct{ c Client }

func (s status) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errUnknown
}

func (s status) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errUnknown
}

func (s status) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errUnknown
}

func (s status) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.c.replace(o, keepAllButStatus)
}

func (s status) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.patch(o, p, keepAllButStatus)
}
