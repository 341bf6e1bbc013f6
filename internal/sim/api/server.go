// SPDX-License-Identifier: Apache-2.0

// Package api is a model of the API server for simulation: Proxies, Secrets and Namespaces in memory, every revision of
// them, and readers that lag behind as caches do. It knows what the operator's correctness depends on (versions,
// finalizers, generations, the status subresource) and no more: no schema but its defaults, no admission, no managed
// fields. What it claims is a table of facts, facts_test.go, that runs against a real API server too.
package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// Kind is one of the kinds that the server knows.
type Kind int

// The kinds.
const (
	Proxies Kind = iota
	Secrets
	Namespaces
	ConfigMaps
	kinds
)

// Event is one revision. Its object is shared by all readers; nobody may change it.
type Event struct {
	Revision int64
	Type     watch.EventType
	Object   client.Object
}

// Server is the truth. It serves one goroutine; its behaviour is a function of the clock and the calls.
type Server struct {
	clock    clock.PassiveClock
	revision int64
	serial   int // counts objects, for UIDs
	objects  [kinds]map[types.NamespacedName]client.Object
	history  [kinds][]Event
	sorted   []*v1alpha1.Proxy // nil: to be made anew
}

// NewServer returns an empty server.
func NewServer(clk clock.PassiveClock) *Server {
	s := &Server{clock: clk}
	for k := range s.objects {
		s.objects[k] = map[types.NamespacedName]client.Object{}
	}
	return s
}

// History returns every revision of a kind, oldest first.
func (s *Server) History(k Kind) []Event { return s.history[k] }

// Newest returns an object as it is, or nil. The caller must not change it.
func (s *Server) Newest(k Kind, id types.NamespacedName) client.Object { return s.objects[k][id] }

// Proxies returns all Proxies as they are, in the order of their names. The caller must not change them, nor the slice.
func (s *Server) Proxies() []*v1alpha1.Proxy {
	if s.sorted != nil {
		return s.sorted
	}
	out := make([]*v1alpha1.Proxy, 0, len(s.objects[Proxies]))
	for _, o := range s.objects[Proxies] {
		if p, ok := o.(*v1alpha1.Proxy); ok {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Proxy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	s.sorted = out
	return out
}

// kindOf tells the kind of an object.
func kindOf(o client.Object) (Kind, error) {
	switch t := o.(type) {
	case *v1alpha1.Proxy:
		return Proxies, nil
	case *corev1.Secret:
		return Secrets, nil
	case *corev1.Namespace:
		return Namespaces, nil
	case *corev1.ConfigMap:
		return ConfigMaps, nil
	case *metav1.PartialObjectMetadata:
		switch t.Kind {
		case "Secret":
			return Secrets, nil
		case "Namespace":
			return Namespaces, nil
		case "Proxy":
			return Proxies, nil
		}
	}
	return 0, fmt.Errorf("the model API server knows nothing of %T", o)
}

func (k Kind) resource() schema.GroupResource {
	switch k {
	case Secrets:
		return schema.GroupResource{Resource: "secrets"}
	case Namespaces:
		return schema.GroupResource{Resource: "namespaces"}
	case ConfigMaps:
		return schema.GroupResource{Resource: "configmaps"}
	case Proxies, kinds:
	}
	return schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "proxies"}
}

// find returns the stored object that o names.
func (s *Server) find(o client.Object) (Kind, client.Object, error) {
	k, err := kindOf(o)
	if err != nil {
		return k, nil, err
	}
	old, ok := s.objects[k][client.ObjectKeyFromObject(o)]
	if !ok {
		return k, nil, apierrors.NewNotFound(k.resource(), o.GetName())
	}
	return k, old, nil
}

// create stores a new object and fills o with it.
func (s *Server) create(o client.Object) error {
	k, err := kindOf(o)
	if err != nil {
		return err
	}
	if o.GetResourceVersion() != "" {
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if _, ok := s.objects[k][client.ObjectKeyFromObject(o)]; ok {
		return apierrors.NewAlreadyExists(k.resource(), o.GetName())
	}
	n := copyOf(o)
	s.serial++
	n.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.serial)))
	n.SetCreationTimestamp(metav1.NewTime(s.clock.Now()).Rfc3339Copy())
	n.SetDeletionTimestamp(nil)
	n.SetDeletionGracePeriodSeconds(nil)
	n.SetGeneration(0)
	if p, ok := n.(*v1alpha1.Proxy); ok {
		p.SetGeneration(1)
		p.Status = v1alpha1.ProxyStatus{}
		applyDefaults(p)
	}
	s.store(k, watch.Added, n)
	return fill(o, n)
}

// applyDefaults are the schema's.
func applyDefaults(p *v1alpha1.Proxy) {
	if p.Spec.Mode == "" {
		p.Spec.Mode = v1alpha1.ModeManaged
	}
	if ci := p.Spec.CloudInit; ci != nil && ci.SecretRef != nil && ci.SecretRef.Key == "" {
		ci.SecretRef.Key = "user-data"
	}
}

// update stores what became of old, unless nothing changed, and fills o with the outcome.
func (s *Server) update(k Kind, old, n client.Object, o client.Object) error {
	keepIdentity(old, n)
	if err := allowed(k, old, n); err != nil {
		return err
	}
	if p, ok := n.(*v1alpha1.Proxy); ok {
		applyDefaults(p)
		if was, ok := old.(*v1alpha1.Proxy); ok && !equality.Semantic.DeepEqual(was.Spec, p.Spec) {
			p.SetGeneration(was.Generation + 1)
		}
	}
	n.SetResourceVersion(old.GetResourceVersion())
	if equality.Semantic.DeepEqual(old, n) {
		return fill(o, old)
	}
	if n.GetDeletionTimestamp() != nil && len(n.GetFinalizers()) == 0 {
		s.store(k, watch.Deleted, n)
	} else {
		s.store(k, watch.Modified, n)
	}
	return fill(o, n)
}

// keepIdentity sets what no client can change.
func keepIdentity(old, n client.Object) {
	n.SetUID(old.GetUID())
	n.SetName(old.GetName())
	n.SetNamespace(old.GetNamespace())
	n.SetCreationTimestamp(old.GetCreationTimestamp())
	n.SetDeletionTimestamp(old.GetDeletionTimestamp())
	n.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	n.SetGeneration(old.GetGeneration())
}

// allowed refuses a finalizer for what is being deleted.
func allowed(k Kind, old, n client.Object) error {
	if old.GetDeletionTimestamp() == nil {
		return nil
	}
	for _, f := range n.GetFinalizers() {
		if !slices.Contains(old.GetFinalizers(), f) {
			return apierrors.NewInvalid(schema.GroupKind{Group: k.resource().Group, Kind: "Proxy"}, n.GetName(), nil)
		}
	}
	return nil
}

// locked refuses a write whose view of old is another one.
func locked(k Kind, old client.Object, version string) error {
	if version == "" || version == old.GetResourceVersion() {
		return nil
	}
	return apierrors.NewConflict(k.resource(), old.GetName(),
		fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}

// remove deletes an object, or marks it for deletion while it has finalizers.
func (s *Server) remove(o client.Object, pre *metav1.Preconditions) error {
	k, old, err := s.find(o)
	if err != nil {
		return err
	}
	if pre != nil && pre.UID != nil && *pre.UID != old.GetUID() {
		return apierrors.NewConflict(k.resource(), old.GetName(), fmt.Errorf("the UID in the precondition is not that of the object"))
	}
	if pre != nil && pre.ResourceVersion != nil {
		if err := locked(k, old, *pre.ResourceVersion); err != nil {
			return err
		}
	}
	n := copyOf(old)
	if len(old.GetFinalizers()) == 0 {
		s.store(k, watch.Deleted, n)
		return nil
	}
	if old.GetDeletionTimestamp() != nil {
		return nil
	}
	at, none := metav1.NewTime(s.clock.Now()).Rfc3339Copy(), int64(0)
	n.SetDeletionTimestamp(&at)
	n.SetDeletionGracePeriodSeconds(&none)
	n.SetGeneration(old.GetGeneration() + 1)
	s.store(k, watch.Modified, n)
	return nil
}

// store makes n the newest revision.
func (s *Server) store(k Kind, t watch.EventType, n client.Object) {
	s.revision++
	s.sorted = nil
	n.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	id := client.ObjectKeyFromObject(n)
	if t == watch.Deleted {
		delete(s.objects[k], id)
	} else {
		s.objects[k][id] = n
	}
	s.history[k] = append(s.history[k], Event{s.revision, t, n})
}

func copyOf[T client.Object](o T) T {
	c, ok := o.DeepCopyObject().(T)
	if !ok {
		return o // every object's copy is of its own type
	}
	return c
}

// Lose takes every Proxy away, as an API server whose storage isn't back yet, and returns them for Restore.
func (s *Server) Lose() []*v1alpha1.Proxy {
	lost := s.Proxies()
	for _, p := range lost {
		s.Drop(client.ObjectKeyFromObject(p))
	}
	return lost
}

// Drop takes a Proxy away, whatever finalizers it has. One that isn't there is no error.
func (s *Server) Drop(id types.NamespacedName) {
	if p := s.objects[Proxies][id]; p != nil {
		s.store(Proxies, watch.Deleted, copyOf(p))
	}
}

// Restore brings Proxies back as they were, in a newer version. One whose name is taken by then stays away.
func (s *Server) Restore(lost []*v1alpha1.Proxy) {
	for _, p := range lost {
		if s.objects[Proxies][client.ObjectKeyFromObject(p)] == nil {
			s.store(Proxies, watch.Added, copyOf(p))
		}
	}
}
