// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

const (
	account      = "pods"
	installation = "installation-one"
	ownImage     = "registry.example.com/proxy-operator:v1"
	home         = "crawl" // the namespace of most Proxies here
	// patience is how long a test waits for the API server on a busy machine.
	patience = 30 * time.Second
	glance   = 20 * time.Millisecond
)

// cluster is the API server that all tests of this package share, and the double of its kubelet.
var cluster struct {
	config *rest.Config
	admin  *kubernetes.Clientset
}

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m, "../..", prepare)) }

func prepare(ctx context.Context, config *rest.Config) (err error) {
	cluster.config = config
	if cluster.admin, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if err := makeNamespace(ctx, home, nil); err != nil {
		return err
	}
	return startKubelet(ctx, cluster.admin)
}

// as is the configuration of a user who has no rights but those that a test grants.
func as(user string) *rest.Config {
	config := rest.CopyConfig(cluster.config)
	config.Impersonate.UserName = user
	return config
}

func makeNamespace(ctx context.Context, name string, labels map[string]string) error {
	_, err := cluster.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// namespace makes one for a test.
func namespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	ns, err := cluster.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return ns.Name
}

// provider is one on the real API server.
func provider(t testing.TB, change ...func(*Options)) *Provider {
	t.Helper()
	return newProvider(t, account, change...)
}

func newProvider(t testing.TB, account string, change ...func(*Options)) *Provider {
	t.Helper()
	o := Options{Cluster: cluster.config, Image: ownImage, Clock: clock.RealClock{}, Log: logr.Discard()}
	for _, c := range change {
		c(&o)
	}
	p, zones, err := Factory(o)(account, providers.Section{})
	require.NoError(t, err)
	require.Empty(t, zones)
	return p.(*Provider)
}

// later is a clock that is d ahead.
func later(d time.Duration) func(*Options) {
	return func(o *Options) { o.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(d)) }
}

// request asks for the pod of a Proxy of its own.
func request(t testing.TB, change ...func(*providers.CreateRequest)) providers.CreateRequest {
	t.Helper()
	return requestOf(t.Name(), change...)
}

func requestOf(owner string, change ...func(*providers.CreateRequest)) providers.CreateRequest {
	key := providers.Key{InstallationID: installation, ProxyUID: uid(owner), Incarnation: 1, Account: account}
	req := providers.CreateRequest{
		Key: key, Name: key.Name(),
		Tags: providers.Tags{
			ManagedBy: providers.ManagedBy, Installation: installation, OwnerUID: key.ProxyUID,
			Namespace: home, Name: "exit-1", Incarnation: 1, SpecHash: "v1:9f86d081884c7d65",
		},
		UserData: "#cloud-config\n", Port: 3128, Protocol: "HTTP",
	}
	for _, c := range change {
		c(&req)
	}
	return req
}

// uid is as long as one and the same for the same words.
func uid(words string) string {
	return providers.InstallationID(words, "uid") + providers.InstallationID(words, "more")
}

func in(namespace string) func(*providers.CreateRequest) {
	return func(r *providers.CreateRequest) { r.Tags.Namespace = namespace }
}

func labelled(key, value string) func(*providers.CreateRequest) {
	return func(r *providers.CreateRequest) { r.Labels = map[string]string{key: value} }
}

// create makes the pod of a request, and removes what is left of it at the end.
func create(t *testing.T, p *Provider, req providers.CreateRequest) providers.Instance {
	t.Helper()
	i, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	t.Cleanup(func() { sweep(t, req.Tags.Namespace, req.Name) })
	return i
}

// sweep removes pod and Secret past the provider.
func sweep(t testing.TB, namespace, name string) {
	t.Helper()
	ctx, now := context.WithoutCancel(t.Context()), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for _, err := range []error{
		cluster.admin.CoreV1().Pods(namespace).Delete(ctx, name, now), cluster.admin.CoreV1().Secrets(namespace).Delete(ctx, name, now),
	} {
		if err != nil {
			require.True(t, apierrors.IsNotFound(err), "%v", err)
		}
	}
}

// awaitState waits until the instance is told as in that state.
func awaitState(t *testing.T, p *Provider, ref providers.Ref, want providers.InstanceState) providers.Instance {
	t.Helper()
	var got providers.Instance
	require.Eventually(t, func() bool {
		var err error
		got, err = p.Get(t.Context(), ref)
		return err == nil && got.State == want
	}, patience, glance, "%s is to be %s: %+v", ref, want, &got)
	return got
}

func failure(t *testing.T, err error) *providers.Error {
	t.Helper()
	var e *providers.Error
	require.ErrorAs(t, err, &e)
	return e
}
