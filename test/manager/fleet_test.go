// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// fleet is the world of one test: a namespace, a state directory of the provider local, and the managers that work there.
type fleet struct {
	t          *testing.T
	ns         string
	dir, state string
	instance   string   // --instance; one for each fleet, so that tests side by side leave each other's machines alone
	watch      []string // --watch-namespaces; none: all
	kubeconfig string
	command    []string // what comes before the flags of every manager
	home       string   // --leader-election-namespace: the manager's own
	health     []string // flags about probes
	managers   []*manager
	sensitive  []string // content of Secrets; nothing but the instances' own files may have it
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp(cluster.dir, "fleet-")
	require.NoError(t, err)
	ns := namespace(t, "fleet-")
	f := &fleet{
		t: t, ns: ns, dir: dir, state: filepath.Join(dir, "state"), instance: filepath.Base(dir), watch: []string{ns},
		kubeconfig: cluster.standard.kubeconfig, command: []string{"manager"}, home: cluster.standard.namespace(),
		health: []string{"--health-interval=1s", "--health-timeout=1s", "--unhealthy-timeout=10s", "--health-deny-cidr=" + operator.LinkLocal},
	}
	f.write("operator.yaml", fmt.Sprintf("accounts:\n- name: local\n  type: local\n  local:\n    stateDir: %q\n- name: pods\n  type: kubernetes\n", f.state))
	t.Cleanup(f.dissolve)
	return f
}

// namespace makes one whose name begins with prefix.
func namespace(t *testing.T, prefix string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	require.NoError(t, cluster.admin.Create(t.Context(), ns))
	return ns.Name
}

// write makes a file in the fleet's folder and returns its path.
func (f *fleet) write(name, content string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// args are those of a manager of this fleet.
func (f *fleet) args(m *manager) []string {
	args := append(slices.Clone(f.command),
		"--config="+filepath.Join(f.dir, "operator.yaml"), "--kubeconfig="+f.kubeconfig, "--instance="+f.instance,
		"--leader-election-namespace="+f.home,
		"--health-probe-bind-address="+m.probes, "--metrics-bind-address="+m.metrics, "--judge-bind-address="+m.judge,
		"--judge-url=") // that of the own judge, not of one in a cluster that runs pods
	args = append(args, f.health...)
	if len(f.watch) > 0 {
		args = append(args, "--watch-namespaces="+strings.Join(f.watch, ","))
	}
	return args
}

// dissolve takes everything away once the managers have ended, and looks that nothing is left.
func (f *fleet) dissolve() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.t.Context()), patience)
	defer cancel()
	f.requireSecretsKept(ctx)
	for _, ns := range append([]string{f.ns}, f.watch...) {
		var list v1alpha1.ProxyList
		require.NoError(f.t, cluster.admin.List(ctx, &list, client.InNamespace(ns)))
		for i := range list.Items {
			p := &list.Items[i]
			was := p.DeepCopy()
			p.Finalizers = nil
			require.NoError(f.t, client.IgnoreNotFound(cluster.admin.Patch(ctx, p, client.MergeFrom(was))))
			require.NoError(f.t, client.IgnoreNotFound(cluster.admin.Delete(ctx, p)))
		}
	}
	// The test looked at those that it cares for; the others served until now.
	err := killProcesses(f.state + string(filepath.Separator))
	if err != nil && !strings.Contains(err.Error(), "left over") {
		require.NoError(f.t, err)
	}
	left, err := operator.RunningMachines(ctx, f.state)
	require.NoError(f.t, err)
	require.Empty(f.t, left)
}

// create makes a Proxy with provider local, changed by each of the given functions.
func (f *fleet) create(name string, change ...func(*v1alpha1.ProxySpec)) *v1alpha1.Proxy {
	f.t.Helper()
	return f.createIn(f.ns, name, change...)
}

func (f *fleet) createIn(ns, name string, change ...func(*v1alpha1.ProxySpec)) *v1alpha1.Proxy {
	f.t.Helper()
	p := proxy(ns, name, change...)
	require.NoError(f.t, cluster.admin.Create(f.t.Context(), p))
	return p
}

func proxy(ns, name string, change ...func(*v1alpha1.ProxySpec)) *v1alpha1.Proxy {
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: v1alpha1.ProxySpec{Provider: "local"}}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

func cloudInitFrom(secret string) func(*v1alpha1.ProxySpec) {
	return func(s *v1alpha1.ProxySpec) {
		s.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: secret}}
	}
}

func authFrom(secret string) func(*v1alpha1.ProxySpec) {
	return func(s *v1alpha1.ProxySpec) { s.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: secret}} }
}

func port(n int32) func(*v1alpha1.ProxySpec) {
	return func(s *v1alpha1.ProxySpec) { s.Port = &n }
}

// edit changes a Proxy as kubectl would: whatever else is being changed.
func (f *fleet) edit(name string, change func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
	f.t.Helper()
	p := f.read(name)
	was := p.DeepCopy()
	change(p)
	require.NoError(f.t, cluster.admin.Patch(f.t.Context(), p, client.MergeFrom(was)))
	return p
}

func annotate(key, value string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func (f *fleet) read(name string) *v1alpha1.Proxy {
	f.t.Helper()
	p := &v1alpha1.Proxy{}
	require.NoError(f.t, cluster.admin.Get(f.t.Context(), client.ObjectKey{Namespace: f.ns, Name: name}, p))
	return p
}

// await returns the Proxy once cond passes.
func (f *fleet) await(name string, cond func(c *assert.CollectT, p *v1alpha1.Proxy)) *v1alpha1.Proxy {
	f.t.Helper()
	return f.awaitIn(f.ns, name, cond)
}

func (f *fleet) awaitIn(ns, name string, cond func(c *assert.CollectT, p *v1alpha1.Proxy)) *v1alpha1.Proxy {
	f.t.Helper()
	found := make(chan *v1alpha1.Proxy, 1)
	eventually(f.t, func(c *assert.CollectT) {
		p := &v1alpha1.Proxy{}
		require.NoError(c, cluster.admin.Get(f.t.Context(), client.ObjectKey{Namespace: ns, Name: name}, p))
		cond(c, p)
		found <- p
	})
	return <-found
}

// ready returns the Proxy once it is Ready as its spec is now.
func (f *fleet) ready(name string) *v1alpha1.Proxy {
	f.t.Helper()
	return f.await(name, requireReady)
}

func requireReady(c *assert.CollectT, p *v1alpha1.Proxy) {
	require.True(c, meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady), "%s: %+v", p.Name, p.Status.Conditions)
	require.Equal(c, p.Generation, p.Status.ObservedGeneration, p.Name)
	require.NotEmpty(c, p.Status.IP, p.Name)
}

// replaced returns the Proxy once it is Ready with another machine than it had.
func (f *fleet) replaced(old *v1alpha1.Proxy) *v1alpha1.Proxy {
	f.t.Helper()
	return f.await(old.Name, func(c *assert.CollectT, p *v1alpha1.Proxy) { requireReplaced(c, old, p) })
}

func requireReplaced(c *assert.CollectT, old, p *v1alpha1.Proxy) {
	requireReady(c, p)
	require.NotEqual(c, old.Status.ProviderID, p.Status.ProviderID)
	require.Greater(c, p.Status.Instance.Incarnation, old.Status.Instance.Incarnation)
}

func (f *fleet) delete(name string) {
	f.t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: name}}
	require.NoError(f.t, cluster.admin.Delete(f.t.Context(), p))
}

// awaitGone returns when there is no Proxy of that name and UID.
func (f *fleet) awaitGone(name string, uid types.UID) {
	f.t.Helper()
	eventually(f.t, func(c *assert.CollectT) {
		p := &v1alpha1.Proxy{}
		err := cluster.admin.Get(f.t.Context(), client.ObjectKey{Namespace: f.ns, Name: name}, p)
		if err == nil {
			require.NotEqual(c, uid, p.UID, "%s: %+v", name, p.Status)
			return
		}
		require.True(c, apierrors.IsNotFound(err), "%v", err)
	})
}

// events lists those about a Proxy, in the order in which they happened.
func (f *fleet) events(ctx context.Context, uid types.UID) []eventsv1.Event {
	f.t.Helper()
	var list eventsv1.EventList
	require.NoError(f.t, cluster.admin.List(ctx, &list, client.InNamespace(f.ns)))
	about := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.UID != uid })
	slices.SortFunc(about, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return about
}
