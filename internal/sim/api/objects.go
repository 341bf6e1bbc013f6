// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// read fills o with what a state of the world has under the key.
func read(k Kind, state map[types.NamespacedName]client.Object, key client.ObjectKey, o client.Object) error {
	is, ok := state[key]
	if !ok {
		return apierrors.NewNotFound(k.resource(), key.Name)
	}
	return fill(o, is)
}

// fill makes o a copy of is. What o held is gone, as with a real client.
func fill(o, is client.Object) error {
	switch to := o.(type) {
	case *v1alpha1.Proxy:
		if from, ok := is.(*v1alpha1.Proxy); ok {
			from.DeepCopyInto(to)
			return nil
		}
	case *corev1.Secret:
		if from, ok := is.(*corev1.Secret); ok {
			from.DeepCopyInto(to)
			return nil
		}
	case *corev1.Namespace:
		if from, ok := is.(*corev1.Namespace); ok {
			from.DeepCopyInto(to)
			return nil
		}
	case *corev1.ConfigMap:
		if from, ok := is.(*corev1.ConfigMap); ok {
			from.DeepCopyInto(to)
			return nil
		}
	case *metav1.PartialObjectMetadata:
		m, err := metaOf(is)
		if err != nil {
			return err
		}
		m.DeepCopyInto(&to.ObjectMeta)
		return nil
	}
	return fmt.Errorf("fill %T from %T", o, is)
}

func metaOf(o client.Object) (*metav1.ObjectMeta, error) {
	switch t := o.(type) {
	case *v1alpha1.Proxy:
		return &t.ObjectMeta, nil
	case *corev1.Secret:
		return &t.ObjectMeta, nil
	case *corev1.Namespace:
		return &t.ObjectMeta, nil
	case *corev1.ConfigMap:
		return &t.ObjectMeta, nil
	}
	return nil, fmt.Errorf("the model API server knows nothing of %T", o)
}

// listProxies fills the list with the Proxies of a namespace; a field selector is taken for the index of Secrets, the
// only one there is.
func listProxies(state map[types.NamespacedName]client.Object, list client.ObjectList, opts []client.ListOption) error {
	to, ok := list.(*v1alpha1.ProxyList)
	if !ok {
		return fmt.Errorf("list %T: %w", list, errUnknown)
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	secret := ""
	if o.FieldSelector != nil {
		for _, r := range o.FieldSelector.Requirements() {
			secret = r.Value
		}
	}
	to.Items = nil
	for _, is := range state {
		p, ok := is.(*v1alpha1.Proxy)
		if ok && (o.Namespace == "" || p.Namespace == o.Namespace) && (secret == "" || uses(p, secret)) {
			to.Items = append(to.Items, *p.DeepCopy())
		}
	}
	slices.SortFunc(to.Items, func(a, b v1alpha1.Proxy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

func uses(p *v1alpha1.Proxy, secret string) bool {
	ci := p.Spec.CloudInit
	return p.Spec.CredentialsSecret() == secret || (ci != nil && ci.SecretRef != nil && ci.SecretRef.Name == secret)
}

// merge applies a merge patch (RFC 7386) to an object. Only the parts that the patch names go through JSON.
func merge(o client.Object, kind types.PatchType, data []byte) error {
	if kind != types.MergePatchType {
		return fmt.Errorf("patch of type %s: %w", kind, errUnknown)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	m, err := metaOf(o)
	if err != nil {
		return err
	}
	fields := map[string]any{"metadata": m}
	switch t := o.(type) {
	case *v1alpha1.Proxy:
		fields["spec"], fields["status"] = &t.Spec, &t.Status
	case *corev1.Secret:
		fields["data"], fields["stringData"] = &t.Data, &t.StringData
	case *corev1.ConfigMap:
		fields["data"] = &t.Data
	}
	for name, patch := range parts {
		field, ok := fields[name]
		if !ok {
			continue
		}
		if err := mergeField(field, patch); err != nil {
			return fmt.Errorf("patch %s: %w", name, err)
		}
	}
	return nil
}

// mergeField merges into one field, which keeps nothing that the merged JSON doesn't have.
func mergeField(field any, patch json.RawMessage) error {
	was, err := json.Marshal(field)
	if err != nil {
		return err
	}
	var a, b any
	if err := json.Unmarshal(was, &a); err != nil {
		return err
	}
	if err := json.Unmarshal(patch, &b); err != nil {
		return err
	}
	is, err := json.Marshal(mergeValue(a, b))
	if err != nil {
		return err
	}
	return replaceField(field, is)
}

func replaceField(field any, is []byte) error {
	switch f := field.(type) {
	case *metav1.ObjectMeta:
		*f = metav1.ObjectMeta{}
	case *v1alpha1.ProxySpec:
		*f = v1alpha1.ProxySpec{}
	case *v1alpha1.ProxyStatus:
		*f = v1alpha1.ProxyStatus{}
	case *map[string][]byte:
		*f = nil
	case *map[string]string:
		*f = nil
	}
	return json.Unmarshal(is, field)
}

// mergeValue is RFC 7386: objects merge key by key, null removes, everything else replaces.
func mergeValue(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for k, v := range p {
		if v == nil {
			delete(t, k)
		} else {
			t[k] = mergeValue(t[k], v)
		}
	}
	return t
}
