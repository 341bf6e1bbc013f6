// SPDX-License-Identifier: Apache-2.0

package api

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

func allFacts() map[string]func(*scene) {
	all := facts()
	maps.Copy(all, noteFacts())
	return all
}

// noted makes a ConfigMap.
func (s *scene) noted() *corev1.ConfigMap {
	n := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "n"}, Data: map[string]string{"a": "1", "b": "2"}}
	s.NoError(s.c.Create(s.ctx, n))
	return n
}

func (s *scene) note() (*corev1.ConfigMap, error) {
	var n corev1.ConfigMap
	err := s.c.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: "n"}, &n)
	return &n, err
}

// noteFacts are of ConfigMaps, in which the collector of orphans leaves word for a person.
func noteFacts() map[string]func(*scene) {
	return map[string]func(*scene){
		"a ConfigMap that isn't there is not found": func(s *scene) {
			_, err := s.note()
			s.True(apierrors.IsNotFound(err))
			s.False(apierrors.IsUnexpectedServerError(err))
		},
		"a ConfigMap is read as it was made, without a generation": func(s *scene) {
			made := s.noted()
			n, err := s.note()
			s.NoError(err)
			s.Equal(map[string]string{"a": "1", "b": "2"}, n.Data)
			s.Equal(made.UID, n.UID)
			s.Zero(n.Generation)
			s.True(apierrors.IsAlreadyExists(s.c.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "n"}})))
		},
		"an update of a ConfigMap replaces its data": func(s *scene) {
			n := s.noted()
			n.Data = map[string]string{"c": "3"}
			s.NoError(s.c.Update(s.ctx, n))
			is, err := s.note()
			s.NoError(err)
			s.Equal(n.Data, is.Data)
		},
		"an update of a ConfigMap with an old version is a conflict, one without a version isn't": func(s *scene) {
			n := s.noted()
			old := n.DeepCopy()
			n.Data = map[string]string{"c": "3"}
			s.NoError(s.c.Update(s.ctx, n))
			old.Data = map[string]string{"d": "4"}
			s.True(apierrors.IsConflict(s.c.Update(s.ctx, old)))
			old.ResourceVersion = ""
			s.NoError(s.c.Update(s.ctx, old))
		},
		"a merge patch adds a key to a ConfigMap's data": func(s *scene) {
			n := s.noted()
			s.NoError(s.c.Patch(s.ctx, n, client.RawPatch(types.MergePatchType, []byte(`{"data":{"c":"3"}}`))))
			is, err := s.note()
			s.NoError(err)
			s.Equal(map[string]string{"a": "1", "b": "2", "c": "3"}, is.Data)
		},
		"a ConfigMap is deleted only by who knows its UID and version, if they are named": func(s *scene) {
			n := s.noted()
			old := n.DeepCopy()
			n.Data = map[string]string{"c": "3"}
			s.NoError(s.c.Update(s.ctx, n))
			s.True(apierrors.IsConflict(s.c.Delete(s.ctx, old, client.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion})))
			s.True(apierrors.IsConflict(s.c.Delete(s.ctx, n, client.Preconditions{UID: ptr.To(types.UID("11111111-2222-3333-4444-555555555555"))})))
			s.NoError(s.c.Delete(s.ctx, n, client.Preconditions{UID: &n.UID, ResourceVersion: &n.ResourceVersion}))
			_, err := s.note()
			s.True(apierrors.IsNotFound(err))
		},
		"a list has the Proxies of all namespaces, or of one": func(s *scene) {
			var all, one, none v1alpha1.ProxyList
			s.NoError(s.c.List(s.ctx, &all))
			s.NoError(s.c.List(s.ctx, &one, client.InNamespace(s.ns)))
			s.NoError(s.c.List(s.ctx, &none, client.InNamespace("nobody-is-here")))
			s.Len(one.Items, 1)
			s.Equal(s.p.UID, one.Items[0].UID)
			s.Empty(none.Items)
			uids := map[types.UID]bool{}
			for _, p := range all.Items {
				uids[p.UID] = true
			}
			s.True(uids[s.p.UID])
		},
	}
}
