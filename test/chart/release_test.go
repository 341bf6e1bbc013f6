// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/chart/earlier"
)

const crdName = "proxies.crawl.proxy-operator.io"

// installed is a release on the API server, or one to be.
type installed struct {
	t        *testing.T
	ns, name string
	operator *process // the newest one, if any
}

// namespace makes one. There is no controller that would remove one.
func namespace(t *testing.T, prefix string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: prefix, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	require.NoError(t, cluster.admin.Create(t.Context(), ns))
	return ns.Name
}

// newRelease is one in a namespace of its own. What is left of it and of the CRD goes with the test.
func newRelease(t *testing.T) *installed {
	t.Helper()
	r := &installed{t: t, ns: namespace(t, "operators-"), name: "proxy-operator"}
	t.Cleanup(r.clear)
	return r
}

// clear removes what a test has left: the release, without its hooks, then Proxies and CRD.
func (r *installed) clear() {
	ctx := cleanup(r.t)
	a := action.NewUninstall(r.configuration())
	a.DisableHooks, a.IgnoreNotFound = true, true
	_, err := a.Run(r.name)
	require.NoError(r.t, err)
	for _, o := range []client.Object{&batchv1.Job{}, &corev1.Pod{}} { // hooks that failed stay
		require.NoError(r.t, cluster.admin.DeleteAllOf(ctx, o, client.InNamespace(r.ns), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	var proxies v1alpha1.ProxyList
	if err := cluster.admin.List(ctx, &proxies); err == nil {
		for i := range proxies.Items {
			was := proxies.Items[i].DeepCopy()
			proxies.Items[i].Finalizers = nil
			require.NoError(r.t, client.IgnoreNotFound(cluster.admin.Patch(ctx, &proxies.Items[i], client.MergeFrom(was))))
		}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
	require.NoError(r.t, client.IgnoreNotFound(cluster.admin.Delete(ctx, crd)))
	eventually(r.t, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(cluster.admin.Get(ctx, client.ObjectKeyFromObject(crd), crd)))
	})
}

// configuration is that of one call of Helm: like the program, each looks anew what the cluster serves.
func (r *installed) configuration() *action.Configuration {
	r.t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace, flags.CacheDir = ptr.To(cluster.kubeconfig), ptr.To(r.ns), ptr.To(filepath.Join(cluster.dir, "cache"))
	c := &action.Configuration{}
	require.NoError(r.t, c.Init(flags, r.ns, "secret", func(string, ...any) {}))
	return c
}

func (r *installed) tryInstall(c *chart.Chart, v values, change ...func(*action.Install)) (*release.Release, error) {
	a := action.NewInstall(r.configuration())
	a.ReleaseName, a.Namespace, a.Timeout = r.name, r.ns, patience
	for _, f := range change {
		f(a)
	}
	return a.RunWithContext(r.t.Context(), c, v)
}

func (r *installed) install(v values) *release.Release {
	r.t.Helper()
	rel, err := r.tryInstall(loadChart(r.t), v)
	require.NoError(r.t, err)
	require.Equal(r.t, release.StatusDeployed, rel.Info.Status)
	return rel
}

func (r *installed) upgrade(c *chart.Chart, v values) *release.Release {
	r.t.Helper()
	a := action.NewUpgrade(r.configuration())
	a.Namespace, a.Timeout = r.ns, patience
	rel, err := a.RunWithContext(r.t.Context(), r.name, c, v)
	require.NoError(r.t, err)
	require.Equal(r.t, release.StatusDeployed, rel.Info.Status)
	return rel
}

func (r *installed) tryUninstall(timeout time.Duration, change ...func(*action.Uninstall)) (*release.UninstallReleaseResponse, error) {
	if r.operator != nil {
		r.operator.requireAllowed() // once its rights are gone, it says so
		r.operator.removed = true
	}
	a := action.NewUninstall(r.configuration())
	a.Timeout = timeout
	for _, f := range change {
		f(a)
	}
	return a.Run(r.name)
}

func (r *installed) uninstall() *release.UninstallReleaseResponse {
	r.t.Helper()
	response, err := r.tryUninstall(patience)
	require.NoError(r.t, err)
	return response
}

// rollbackAfterAnUninstallation is the way out that the job tells of: Helm refuses an upgrade until then.
func (r *installed) rollbackAfterAnUninstallation() {
	r.t.Helper()
	a := action.NewUpgrade(r.configuration())
	a.Namespace = r.ns
	_, err := a.RunWithContext(r.t.Context(), r.name, loadChart(r.t), nil)
	require.ErrorContains(r.t, err, "has no deployed releases")
	back := action.NewRollback(r.configuration())
	back.Version, back.Timeout = 1, patience
	require.NoError(r.t, back.Run(r.name))
}

// live reads the objects of a release, but for hooks, as the API server has them.
func (r *installed) live(rel *release.Release) []*unstructured.Unstructured {
	r.t.Helper()
	all := objects(r.t, rel.Manifest)
	for _, o := range all {
		require.NoError(r.t, cluster.admin.Get(r.t.Context(), client.ObjectKeyFromObject(o), o), id(o))
	}
	return all
}

// requireGone looks that no object of a release is there, but for the kinds that were kept.
func (r *installed) requireGone(rel *release.Release, kept ...string) {
	r.t.Helper()
	for _, o := range manifests(r.t, rel) {
		want := len(ofKind([]*unstructured.Unstructured{o}, kept...)) > 0
		eventually(r.t, func(c *assert.CollectT) { // a CRD takes a while
			err := cluster.admin.Get(r.t.Context(), client.ObjectKeyFromObject(o), o)
			require.NoError(c, client.IgnoreNotFound(err))
			require.Equal(c, want, err == nil, "is there: %s", id(o))
		})
	}
}

// crd is the one of Proxies, as the API server has it.
func crd(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	c := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKey{Name: crdName}, c))
	return c
}

// awaitServed returns when Proxies can be written. Right after the CRD they can't.
func awaitServed(t *testing.T) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, cluster.admin.List(t.Context(), &v1alpha1.ProxyList{}))
	})
}

// packaged returns the chart as a user gets it who pulls that version: archived and loaded from the archive.
func packaged(t *testing.T, c *chart.Chart, version string) *chart.Chart {
	t.Helper()
	c.Metadata.Version, c.Metadata.AppVersion = version, version
	file, err := chartutil.Save(c, t.TempDir())
	require.NoError(t, err)
	c, err = loader.Load(file)
	require.NoError(t, err)
	require.Equal(t, version, c.Metadata.Version)
	return c
}

// earlierChart returns the chart of an earlier commit under a lower version. It differs from today's in any case: its CRD doesn't
// know the field healthCheck, and its operator has another argument.
func earlierChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, commit, err := earlier.Chart(t.Context(), root)
	require.NoError(t, err)
	t.Log("the earlier chart is that of", commit)
	for name, change := range map[string][2]string{
		"templates/crds/crawl.proxy-operator.io_proxies.yaml": {"healthCheck", "probing"},
		"values.yaml": {"maxConcurrentReconciles: 3", "maxConcurrentReconciles: 2"},
	} {
		changed := false
		for _, f := range slices.Concat(c.Raw, c.Templates) {
			if f.Name == name {
				require.Contains(t, string(f.Data), change[0])
				f.Data, changed = []byte(strings.ReplaceAll(string(f.Data), change[0], change[1])), true
			}
		}
		require.True(t, changed, "%s of %s", name, commit)
	}
	return packaged(t, c, earlier.Version)
}

// ensureNamespace makes one that more than one test uses.
func ensureNamespace(t *testing.T, name string) {
	t.Helper()
	err := cluster.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	require.NoError(t, client.IgnoreAlreadyExists(err))
}
