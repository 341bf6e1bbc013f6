// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

// The model is calibrated: each fact is true of a real API server and of the model, or the test fails.
var server *rest.Config

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, filepath.Join("..", "..", ".."), func(_ context.Context, config *rest.Config) error {
		server = config
		return nil
	}))
}

// scene is one server and one Proxy on it, as the server answered its creation.
type scene struct {
	*require.Assertions
	ctx context.Context //nolint:containedctx // of the test
	c   client.Client
	ns  string
	p   *v1alpha1.Proxy
}

const finalizer = "example.com/held"

func TestFacts(t *testing.T) {
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, v1alpha1.AddToScheme(s))
	direct, err := client.New(server, client.Options{Scheme: s})
	require.NoError(t, err)
	model := NewServer(clocktesting.NewFakePassiveClock(time.Now()))
	for name, c := range map[string]client.Client{"real": direct, "model": model.Client()} {
		for fact, f := range allFacts() {
			t.Run(name+": "+fact, func(t *testing.T) { f(begin(t, c)) })
		}
	}
}

var scenes int

func begin(t *testing.T, c client.Client) *scene {
	t.Helper()
	scenes++
	s := &scene{Assertions: require.New(t), ctx: t.Context(), c: c, ns: fmt.Sprintf("facts-%d", scenes)}
	s.NoError(c.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}))
	s.p = &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "p"}, Spec: v1alpha1.ProxySpec{Provider: "cloud"}}
	s.p.Status.Phase = v1alpha1.PhaseReady
	s.NoError(c.Create(s.ctx, s.p))
	return s
}

func (s *scene) now() *v1alpha1.Proxy {
	var p v1alpha1.Proxy
	s.NoError(s.c.Get(s.ctx, client.ObjectKeyFromObject(s.p), &p))
	return &p
}

func (s *scene) gone() bool {
	return apierrors.IsNotFound(s.c.Get(s.ctx, client.ObjectKeyFromObject(s.p), &v1alpha1.Proxy{}))
}

// patch sends what change makes of p, and returns the answer.
func (s *scene) patch(p *v1alpha1.Proxy, change func(*v1alpha1.Proxy), opts ...client.MergeFromOption) (*v1alpha1.Proxy, error) {
	q := p.DeepCopy()
	change(q)
	return q, s.c.Patch(s.ctx, q, client.MergeFromWithOptions(p.DeepCopy(), fromOptions(opts)))
}

func fromOptions(opts []client.MergeFromOption) client.MergeFromOption {
	if len(opts) == 0 {
		return unlockedPatch{}
	}
	return opts[0]
}

type unlockedPatch struct{}

func (unlockedPatch) ApplyToMergeFrom(*client.MergeFromOptions) {}

func (s *scene) patchStatus(p *v1alpha1.Proxy, change func(*v1alpha1.Proxy)) (*v1alpha1.Proxy, error) {
	q := p.DeepCopy()
	change(q)
	return q, s.c.Status().Patch(s.ctx, q, client.MergeFrom(p.DeepCopy()))
}

func held(p *v1alpha1.Proxy)   { p.Finalizers = []string{finalizer} }
func unheld(p *v1alpha1.Proxy) { p.Finalizers = nil }
func marked(p *v1alpha1.Proxy) { p.Annotations = map[string]string{"example.com/a": "1"} }
func edited(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](3129) }

func ready(p *v1alpha1.Proxy) {
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Created"})
	p.Status.ObservedGeneration, p.Status.IP = p.Generation, "10.0.0.1"
}

var withLock = client.MergeFromWithOptimisticLock{}

func facts() map[string]func(*scene) {
	return map[string]func(*scene){
		"a new object has a UID, generation 1, a version, its defaults, and no status": func(s *scene) {
			s.NotEmpty(s.p.UID)
			s.EqualValues(1, s.p.Generation)
			s.NotEmpty(s.p.ResourceVersion)
			s.False(s.p.CreationTimestamp.IsZero())
			s.Equal(v1alpha1.ModeManaged, s.p.Spec.Mode)
			s.Empty(s.p.Status)
		},
		"an object is created once": func(s *scene) {
			again := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "p"}, Spec: s.p.Spec}
			s.True(apierrors.IsAlreadyExists(s.c.Create(s.ctx, again)))
		},
		"an object with a version isn't created": func(s *scene) {
			q := s.p.DeepCopy()
			q.Name = "q"
			s.Error(s.c.Create(s.ctx, q))
		},
		"a recreated object has another UID": func(s *scene) {
			s.NoError(s.c.Delete(s.ctx, s.p))
			s.True(s.gone())
			q := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "p"}, Spec: s.p.Spec}
			s.NoError(s.c.Create(s.ctx, q))
			s.NotEqual(s.p.UID, q.UID)
		},
		"a delete without finalizers is immediate, and then there is nothing": func(s *scene) {
			s.NoError(s.c.Delete(s.ctx, s.p))
			s.True(s.gone())
			s.True(apierrors.IsNotFound(s.c.Delete(s.ctx, s.p)))
			_, err := s.patch(s.p, marked)
			s.True(apierrors.IsNotFound(err))
			_, err = s.patchStatus(s.p, ready)
			s.True(apierrors.IsNotFound(err))
		},
		"a delete with a finalizer marks, and counts a generation": func(s *scene) {
			p, err := s.patch(s.p, held)
			s.NoError(err)
			s.NoError(s.c.Delete(s.ctx, p))
			s.False(s.now().DeletionTimestamp.IsZero())
			s.EqualValues(2, s.now().Generation)
		},
		"a second delete changes nothing": func(s *scene) {
			p, err := s.patch(s.p, held)
			s.NoError(err)
			s.NoError(s.c.Delete(s.ctx, p))
			before := s.now()
			s.NoError(s.c.Delete(s.ctx, p))
			s.Equal(before, s.now())
		},
		"the object goes with its last finalizer": func(s *scene) {
			p, err := s.patch(s.p, held)
			s.NoError(err)
			s.NoError(s.c.Delete(s.ctx, p))
			_, err = s.patch(s.now(), unheld)
			s.NoError(err)
			s.True(s.gone())
		},
		"what is being deleted gets no new finalizer": func(s *scene) {
			p, err := s.patch(s.p, held)
			s.NoError(err)
			s.NoError(s.c.Delete(s.ctx, p))
			_, err = s.patch(s.now(), func(p *v1alpha1.Proxy) { p.Finalizers = append(p.Finalizers, v1alpha1.Finalizer) })
			s.True(apierrors.IsInvalid(err))
		},
		"a locked patch of an old view is a conflict": func(s *scene) {
			_, err := s.patch(s.p, marked)
			s.NoError(err)
			_, err = s.patch(s.p, held, withLock)
			s.True(apierrors.IsConflict(err))
			s.Empty(s.now().Finalizers)
		},
		"a locked patch of the newest view is written": func(s *scene) {
			p, err := s.patch(s.p, held, withLock)
			s.NoError(err)
			s.NotEqual(s.p.ResourceVersion, p.ResourceVersion)
			s.Equal([]string{finalizer}, s.now().Finalizers)
		},
		"a patch without lock is written over a newer version, field by field": func(s *scene) {
			_, err := s.patch(s.p, edited)
			s.NoError(err)
			_, err = s.patch(s.p, marked)
			s.NoError(err)
			s.EqualValues(3129, *s.now().Spec.Port)
			s.Equal("1", s.now().Annotations["example.com/a"])
		},
		"a patch that changes nothing makes no version": func(s *scene) {
			p, err := s.patch(s.p, func(*v1alpha1.Proxy) {})
			s.NoError(err)
			s.Equal(s.p.ResourceVersion, p.ResourceVersion)
		},
		"a change of spec counts a generation, one of metadata or status doesn't": func(s *scene) {
			p, err := s.patch(s.p, marked)
			s.NoError(err)
			p, err = s.patchStatus(p, ready)
			s.NoError(err)
			s.EqualValues(1, p.Generation)
			p, err = s.patch(p, edited)
			s.NoError(err)
			s.EqualValues(2, p.Generation)
		},
		"a patch of the object leaves status alone": func(s *scene) {
			_, err := s.patch(s.p, func(p *v1alpha1.Proxy) { marked(p); ready(p) })
			s.NoError(err)
			s.Empty(s.now().Status)
		},
		"a patch of status leaves everything else alone": func(s *scene) {
			_, err := s.patchStatus(s.p, func(p *v1alpha1.Proxy) { marked(p); held(p); edited(p); ready(p) })
			s.NoError(err)
			s.Empty(s.now().Annotations)
			s.Empty(s.now().Finalizers)
			s.Nil(s.now().Spec.Port)
			s.Equal("10.0.0.1", s.now().Status.IP)
		},
		"the answer to a patch replaces a status that was only staged": func(s *scene) {
			q := s.p.DeepCopy()
			from := q.DeepCopy()
			marked(q)
			from.Status.Phase, q.Status.Phase = v1alpha1.PhaseReady, v1alpha1.PhaseReady
			s.NoError(s.c.Patch(s.ctx, q, client.MergeFrom(from)))
			s.Empty(q.Status.Phase)
		},
		"a merge patch replaces lists as a whole": func(s *scene) {
			_, err := s.patchStatus(s.p, func(p *v1alpha1.Proxy) {
				meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "Paused"})
			})
			s.NoError(err)
			_, err = s.patchStatus(s.p, ready) // of the view from before
			s.NoError(err)
			s.Len(s.now().Status.Conditions, 1)
		},
		"an update with an old version is a conflict, one without a version invalid": func(s *scene) {
			_, err := s.patch(s.p, marked)
			s.NoError(err)
			q := s.p.DeepCopy()
			edited(q)
			s.True(apierrors.IsConflict(s.c.Update(s.ctx, q)))
			q.ResourceVersion = ""
			s.True(apierrors.IsInvalid(s.c.Update(s.ctx, q)))
		},
		"an update leaves status alone": func(s *scene) {
			p, err := s.patchStatus(s.p, ready)
			s.NoError(err)
			p.Status.IP = "10.0.0.2"
			edited(p)
			s.NoError(s.c.Update(s.ctx, p))
			s.Equal("10.0.0.1", s.now().Status.IP)
		},
		"a patch of status lands on an object of that name, whatever its UID": func(s *scene) {
			s.NoError(s.c.Delete(s.ctx, s.p))
			q := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "p"}, Spec: s.p.Spec}
			s.NoError(s.c.Create(s.ctx, q))
			_, err := s.patchStatus(s.p, ready)
			s.NoError(err)
			s.Equal("10.0.0.1", s.now().Status.IP)
		},
		"a patch of the object that names another UID is invalid": func(s *scene) {
			raw := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"11111111-2222-3333-4444-555555555555","annotations":{"example.com/a":"1"}}}`))
			err := s.c.Patch(s.ctx, s.p.DeepCopy(), raw)
			s.True(apierrors.IsInvalid(err), "%v", err)
			s.Empty(s.now().Annotations)
		},
		"a delete with the UID of another object is a conflict": func(s *scene) {
			other := types.UID("11111111-2222-3333-4444-555555555555")
			s.True(apierrors.IsConflict(s.c.Delete(s.ctx, s.p, client.Preconditions{UID: &other})))
		},
		"metadata of a Secret can be read without its content": func(s *scene) {
			sec := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "s"}, Data: map[string][]byte{"k": []byte("v")}}
			s.NoError(s.c.Create(s.ctx, sec))
			m := &metav1.PartialObjectMetadata{}
			m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			s.NoError(s.c.Get(s.ctx, client.ObjectKeyFromObject(sec), m))
			s.Equal(sec.UID, m.UID)
			s.Equal(sec.ResourceVersion, m.ResourceVersion)
			s.Zero(m.Generation)
		},
		"times are kept to the second": func(s *scene) {
			_, err := s.patchStatus(s.p, ready)
			s.NoError(err)
			s.Zero(s.now().Status.Conditions[0].LastTransitionTime.Nanosecond())
		},
	}
}
