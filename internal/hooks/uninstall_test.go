// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

var errLost = errors.New("connection lost")

func builder(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
}

// held is a Proxy that somebody's finalizer keeps.
func held(ns, name string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Finalizers: []string{"example.com/held"}}}
}

func free(ns, name string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func uninstall(c client.Client, policy Policy, namespaces ...string) *Uninstall {
	return &Uninstall{
		// It steps on when somebody waits, so that a wait of minutes takes none.
		Client: c, Clock: &eager{clocktesting.NewFakeClock(time.Unix(0, 0))}, Log: logr.Discard(),
		Policy: policy, Namespaces: namespaces, Timeout: time.Minute,
		Installation: func(context.Context) (string, error) { return "ours", nil },
		Other: func(p *v1alpha1.Proxy, installation string) string {
			if of := p.Annotations["of"]; of != installation {
				return of
			}
			return ""
		},
	}
}

// of is a Proxy of an installation.
func of(installation string, p *v1alpha1.Proxy) *v1alpha1.Proxy {
	p.Annotations = map[string]string{"of": installation}
	return p
}

// eager is a clock that goes on by what is waited for.
type eager struct{ *clocktesting.FakeClock }

// After implements clock.Clock.
func (e *eager) After(d time.Duration) <-chan time.Time {
	c := e.FakeClock.After(d)
	e.Step(d)
	return c
}

func left(t *testing.T, c client.Client) []string {
	t.Helper()
	var list v1alpha1.ProxyList
	require.NoError(t, c.List(t.Context(), &list))
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
	}
	return names
}

func TestDeleteDeletesTheProxiesOfTheWatchedNamespaces(t *testing.T) {
	c := builder(t, free("a", "1"), free("b", "2"), free("c", "3")).Build()
	require.NoError(t, uninstall(c, Delete, "a", "b").Run(t.Context()))
	require.Equal(t, []string{"c/3"}, left(t, c))
	require.NoError(t, uninstall(c, Delete).Run(t.Context()))
	require.Empty(t, left(t, c))
	require.NoError(t, uninstall(c, Delete).Run(t.Context()), "again")
}

func TestDeleteGoesOnAfterAnErrorAndTakesWhatIsNew(t *testing.T) {
	looks := 0
	c := builder(t, free("a", "1")).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			looks++
			switch looks {
			case 1:
				return errLost
			case 2:
				require.NoError(t, c.Create(ctx, free("a", "made-meanwhile")))
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	require.NoError(t, uninstall(c, Delete).Run(t.Context()))
	require.Equal(t, 3, looks)
}

func TestDeleteSaysWhatIsLeft(t *testing.T) {
	paused := held("a", "paused")
	paused.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
	failing := held("a", "failing")
	failing.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonProviderError}}
	c := builder(t, paused, failing).Build()
	err := uninstall(c, Delete).Run(t.Context())
	require.ErrorContains(t, err, "after 1m0s these are left: Proxies a/failing (ProviderError), a/paused (paused). The operator is still installed.")
	require.Len(t, left(t, c), 2)

	var many []client.Object
	for i := range 25 {
		many = append(many, held("a", fmt.Sprintf("p-%02d", i)))
	}
	require.ErrorContains(t, uninstall(builder(t, many...).Build(), Delete).Run(t.Context()), "a/p-09, and 15 more")
}

func TestDeleteLeavesTheProxiesOfOtherInstallationsAlone(t *testing.T) {
	c := builder(t, of("ours", free("a", "own")), free("a", "new"), of("theirs", free("a", "foreign")), of("theirs", free("b", "foreign"))).Build()
	u := uninstall(c, Delete)
	var said bytes.Buffer
	u.Log = funcr.New(func(_, args string) { said.WriteString(args + "\n") }, funcr.Options{})
	u.CRDs = true
	require.ErrorContains(t, u.Run(t.Context()),
		"the CRDs are about to go, and with them Proxies a/foreign, b/foreign of another installation of the operator: set crds.keep=true")
	require.Len(t, left(t, c), 4, "it is found out before anything is deleted")
	u.CRDs = false
	require.NoError(t, u.Run(t.Context()))
	require.Equal(t, []string{"a/foreign", "b/foreign"}, left(t, c))
	require.Contains(t, said.String(), `left alone, as they are another installation's; the CRDs must stay for them" "proxies"="Proxies a/foreign, b/foreign"`)
}

func TestDeleteDeletesNothingBeforeItKnowsWhoseItIs(t *testing.T) {
	c := builder(t, free("a", "1")).Build()
	u := uninstall(c, Delete)
	tries, deleted := 0, false
	u.Client = interceptor.NewClient(c, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			deleted = true
			return c.Delete(ctx, o, opts...)
		},
	})
	u.Installation = func(context.Context) (string, error) {
		tries++
		if tries < 3 {
			require.False(t, deleted)
			return "", errLost
		}
		return "ours", nil
	}
	require.NoError(t, u.Run(t.Context()))
	require.Empty(t, left(t, c))
	u.Installation = func(context.Context) (string, error) {
		return "", apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", errors.New("no"))
	}
	require.True(t, apierrors.IsForbidden(u.Run(t.Context())))
}

func TestDeleteSaysThatNoOperatorWorks(t *testing.T) {
	const none = "after 1m0s these are left: Proxy a/1. No operator works that would remove their machines: "
	lease := types.NamespacedName{Namespace: "operators", Name: "lease"}
	reading := func(leases client.Client) client.Client {
		p := held("a", "1")
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonCreated}} // an old one
		return builder(t, p).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, _ client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				require.Equal(t, lease, k)
				return leases.Get(ctx, k, o, opts...)
			},
		}).Build()
	}
	forbidden := builder(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "lease", errors.New("no"))
		},
	}).Build()
	for name, c := range map[string]struct {
		why    string
		leases client.Client
		want   string
	}{
		"a lease that nobody holds":        {"its Deployment was scaled to 0", leaseOf(t, true, "pod-1", ""), none + "nobody holds the lease operators/lease. See"},
		"a lease that nobody renews":       {"its node is down", leaseOf(t, false, "pod-1"), none + "nobody has renewed the lease operators/lease for 1m0s. See"},
		"no lease":                         {"it never ran", builder(t).Build(), none + "get the lease operators/lease: "},
		"a lease that is renewed":          {"something else holds the Proxy", leaseOf(t, true, "pod-1"), "these are left: Proxy a/1 (Created). The operator is still installed"},
		"a lease that it may not look at":  {"an account of somebody's own", forbidden, "these are left: Proxy a/1 (Created). The operator is still installed"},
		"a lease that is taken in the end": {"pods start late", leaseOf(t, true, "", "", "pod-1"), "these are left: Proxy a/1 (Created). The operator is still installed"},
	} {
		t.Run(name, func(t *testing.T) {
			u := uninstall(reading(c.leases), Delete)
			u.Lease = lease
			require.ErrorContains(t, u.Run(t.Context()), c.want, c.why)
		})
	}
}

func TestDeleteEndsAtOnceWhenItMayNot(t *testing.T) {
	gr := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "proxies"}
	u := uninstall(builder(t, free("a", "1")).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return apierrors.NewForbidden(gr, "1", errors.New("no"))
		},
	}).Build(), Delete)
	err := u.Run(t.Context())
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.Equal(t, time.Unix(0, 0), u.Clock.Now())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, uninstall(builder(t, held("a", "1")).Build(), Delete).Run(ctx), context.Canceled)
}

func TestAnErrorThatStaysIsTold(t *testing.T) {
	c := builder(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return errLost },
	}).Build()
	for _, policy := range []Policy{Delete, Retain} {
		require.ErrorIs(t, uninstall(c, policy).Run(t.Context()), errLost, policy)
	}
}

func TestWithoutACRDThereIsNothingToDo(t *testing.T) {
	c := builder(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "Proxy"}}
		},
	}).Build()
	for _, policy := range []Policy{Delete, Retain} {
		require.NoError(t, uninstall(c, policy).Run(t.Context()), policy)
	}
}

func TestRetainRefusesWhileThereAreProxies(t *testing.T) {
	c := builder(t, free("a", "1")).Build()
	err := uninstall(c, Retain).Run(t.Context())
	require.ErrorContains(t, err, "with them Proxy a/1, whose machines nobody would remove: delete them while the operator runs")
	require.Len(t, left(t, c), 1)
	require.NoError(t, uninstall(c, Retain, "b").Run(t.Context()))
}
