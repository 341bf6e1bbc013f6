// SPDX-License-Identifier: Apache-2.0

// Package helm4_test installs, upgrades and uninstalls the chart with Helm 4, which applies on the server's side, on a real API
// server where no pod runs.
package helm4_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	chartDir = "../../../charts/proxy-operator"
	name     = "proxy-operator"
	patience = time.Minute
)

var cluster struct {
	admin      client.Client
	kubeconfig string
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	env := &envtest.Environment{ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience}
	dir, err := os.MkdirTemp("", "helm4-test-")
	if err == nil {
		err = prepare(env, dir)
	}
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, env.Stop(), os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func prepare(env *envtest.Environment, dir string) error {
	config, err := env.Start()
	if err != nil {
		return fmt.Errorf("start the API server (is KUBEBUILDER_ASSETS set?): %w", err)
	}
	if cluster.admin, err = client.New(config, client.Options{}); err != nil {
		return err
	}
	cluster.kubeconfig = filepath.Join(dir, "kubeconfig")
	return os.WriteFile(cluster.kubeconfig, env.KubeConfig, 0o600)
}

type installed struct {
	t  *testing.T
	ns string
}

// newRelease is always of the same namespace and name: each takes over the CRD that the one before has left.
func newRelease(t *testing.T) *installed {
	t.Helper()
	ensureNamespace(t, "operators")
	return &installed{t, "operators"}
}

func ensureNamespace(t *testing.T, name string) {
	t.Helper()
	err := cluster.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	require.NoError(t, client.IgnoreAlreadyExists(err))
}

func (r *installed) configuration() *action.Configuration {
	r.t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace, flags.CacheDir = ptr.To(cluster.kubeconfig), ptr.To(r.ns), ptr.To(r.t.TempDir())
	c := action.NewConfiguration()
	require.NoError(r.t, c.Init(flags, r.ns, "secret"))
	return c
}

func (r *installed) install(c *chart.Chart, v map[string]any) *release.Release {
	r.t.Helper()
	a := action.NewInstall(r.configuration())
	a.ReleaseName, a.Namespace, a.Timeout, a.WaitStrategy = name, r.ns, patience, kube.HookOnlyStrategy
	rel, err := a.RunWithContext(r.t.Context(), c, v)
	require.NoError(r.t, err)
	require.Equal(r.t, "ssa", rel.(*release.Release).ApplyMethod)
	return rel.(*release.Release)
}

func (r *installed) upgrade(v map[string]any) (*release.Release, error) {
	r.t.Helper()
	a := action.NewUpgrade(r.configuration())
	a.Namespace, a.Timeout, a.WaitStrategy = r.ns, patience, kube.HookOnlyStrategy
	rel, err := a.RunWithContext(r.t.Context(), name, load(r.t), v)
	if err != nil {
		return nil, err
	}
	return rel.(*release.Release), nil
}

// uninstall removes all but the CRD.
func (r *installed) uninstall() {
	r.t.Helper()
	a := action.NewUninstall(r.configuration())
	a.Timeout, a.WaitStrategy = patience, kube.HookOnlyStrategy
	_, err := a.Run(name)
	require.NoError(r.t, err)
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	require.NoError(t, err)
	return c
}

func parse(t *testing.T, text []byte) map[string]any {
	t.Helper()
	v := map[string]any{}
	require.NoError(t, sigsyaml.Unmarshal(text, &v))
	return v
}

// versions are the resource versions of the objects of a release, as the API server has them; 0 for one that isn't there.
func versions(t *testing.T, rel *release.Release) map[string]string {
	t.Helper()
	found := map[string]string{}
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(rel.Manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := docs.Decode(o)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		if len(o.Object) == 0 {
			continue
		}
		err = cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		require.NoError(t, client.IgnoreNotFound(err))
		found[o.GetKind()+" "+o.GetName()] = o.GetResourceVersion()
		if apierrors.IsNotFound(err) {
			found[o.GetKind()+" "+o.GetName()] = "0"
		}
	}
}

// finishJobs is a test double of the Job controller: every Job has succeeded.
func finishJobs(t *testing.T) {
	t.Helper()
	done, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			var jobs batchv1.JobList
			if err := cluster.admin.List(t.Context(), &jobs); err != nil {
				continue
			}
			for i := range jobs.Items {
				j, now := &jobs.Items[i], metav1.Now()
				j.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}
				for _, c := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
					j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
				}
				_ = cluster.admin.Status().Update(t.Context(), j) // the next look tries again
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

func TestEveryValuesFileInstallsUpgradesAndUninstalls(t *testing.T) {
	finishJobs(t)
	ensureNamespace(t, "crawl-a")
	ensureNamespace(t, "crawl-b")
	files, err := filepath.Glob(chartDir + "/ci/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			raw, err := os.ReadFile(f)
			require.NoError(t, err)
			v := parse(t, raw)
			for _, part := range []string{"serviceMonitor", "prometheusRule"} { // their API isn't there
				delete(v, part)
			}
			r := newRelease(t)
			before := versions(t, r.install(load(t), v))
			rel, err := r.upgrade(v)
			require.NoError(t, err)
			require.Equal(t, before, versions(t, rel), "an upgrade to the same changes nothing")
			require.NotContains(t, before, "0")
			r.uninstall()
			for object, version := range versions(t, rel) {
				require.Equal(t, object == "CustomResourceDefinition proxies.crawl.proxy-operator.io", version != "0", object)
			}
		})
	}
}

// k3s-io/helm-controller#343: whoever scales the Deployment owns the number from then on. docs/install/helm.md tells the way out.
func TestAScaledDeploymentIsUpgradedWithoutANumber(t *testing.T) {
	r := newRelease(t)
	r.install(load(t), nil)
	t.Cleanup(r.uninstall)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: name}}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	require.NoError(t, cluster.admin.SubResource("scale").Update(t.Context(), d, client.WithSubResourceBody(scale)))
	_, err := r.upgrade(nil)
	require.ErrorContains(t, err, ".spec.replicas")
	_, err = r.upgrade(parse(t, []byte("replicas: null")))
	require.NoError(t, err)
	require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(d), d))
	require.Equal(t, int32(2), *d.Spec.Replicas)
}
