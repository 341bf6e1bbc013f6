// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

func TestInstallAndUninstallWithEachValuesFile(t *testing.T) {
	for name, v := range valuesFiles(t) {
		t.Run(name, func(t *testing.T) {
			r := newRelease(t)
			ensureNamespace(t, "crawl-a")
			ensureNamespace(t, "crawl-b")
			jobs := runJobs(t)
			rel := r.install(v)
			require.NotEmpty(t, r.live(rel))
			r.uninstall()
			r.requireGone(rel, "CustomResourceDefinition")
			if name == "namespaced" || name == "everything-on" {
				jobs.requireSucceeded()
				require.Contains(t, jobs.said(), "no Proxy is left")
			}
		})
	}
}

// What kubeconform does with schemas from elsewhere, the API server does with its own: unknown fields and wrong types are refused,
// and pods meet the Pod Security Standard.
func TestTheAPIServerTakesEveryObjectAsItIs(t *testing.T) {
	r := newRelease(t)
	ensureNamespace(t, "crawl-a")
	ensureNamespace(t, "crawl-b")
	strict := client.WithFieldValidation(cluster.admin, metav1.FieldValidationStrict)
	for name, v := range valuesFiles(t) {
		t.Run(name, func(t *testing.T) {
			all := render(t, v, "monitoring.coreos.com/v1")
			for _, p := range podsOf(t, all) {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: r.ns, Labels: p.meta.Labels, Annotations: p.meta.Annotations}, Spec: p.spec}
				require.NoError(t, strict.Create(t.Context(), pod, client.DryRunAll), p.of)
			}
			for _, o := range all {
				if o.GetNamespace() == releaseNS {
					o.SetNamespace(r.ns)
				}
				require.NoError(t, strict.Create(t.Context(), o, client.DryRunAll), id(o))
			}
		})
	}
}

// GitOps tools apply again and again, and so may people: nothing may change.
func TestApplyingAgainChangesNothing(t *testing.T) {
	r := newRelease(t)
	v := valuesFiles(t)["everything-on"]
	first := r.live(r.install(v))
	again := r.live(r.upgrade(loadChart(t), v))
	require.Len(t, again, len(first))
	for i := range first {
		require.Equal(t, first[i].GetResourceVersion(), again[i].GetResourceVersion(), "helm upgrade changed %s", id(first[i]))
	}
	apply := func() (versions []string) {
		for _, o := range objects(t, manifestFor(t, r, v)) {
			require.NoError(t, cluster.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("argocd"), client.ForceOwnership), id(o))
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(o.GroupVersionKind())
			require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(o), live))
			versions = append(versions, id(live)+" "+live.GetResourceVersion())
		}
		return versions
	}
	require.Equal(t, apply(), apply(), "server-side apply changed something the second time")
}

// manifestFor renders for the namespace and name of the release.
func manifestFor(t *testing.T, r *installed, v values) string {
	t.Helper()
	a := action.NewInstall(r.configuration())
	a.DryRunOption, a.DryRun, a.ReleaseName, a.Namespace, a.Replace = "server", true, r.name, r.ns, true
	rel, err := a.RunWithContext(t.Context(), loadChart(t), v)
	require.NoError(t, err)
	return rel.Manifest
}

// knows tells whether the CRD of the API server has a field of the spec.
func knows(t *testing.T, field string) bool {
	t.Helper()
	_, ok := crd(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties[field]
	return ok
}

// helm/helm#8972, redhat-cop/vault-config-operator#192, Azure/azure-service-operator#2338, spotahome/redis-operator#527,
// k8ssandra/cass-operator#460: CRDs that no upgrade touches. slauger/openvox-operator#555: what an old CRD doesn't know is dropped in
// silence.
func TestAnUpgradeUpgradesTheCRD(t *testing.T) {
	r := newRelease(t)
	_, err := r.tryInstall(earlierChart(t), nil)
	require.NoError(t, err)
	require.False(t, knows(t, "healthCheck"))
	awaitServed(t)
	p := proxy(t, r.ns, "old")
	uid := crd(t).UID
	r.upgrade(loadChart(t), nil)
	require.True(t, knows(t, "healthCheck"))
	require.Equal(t, uid, crd(t).UID)
	eventually(t, func(c *assert.CollectT) {
		was := p.DeepCopy()
		p.Spec.HealthCheck = &v1alpha1.HealthCheck{Remediation: ptr.To(v1alpha1.RemediationNone)}
		require.NoError(c, cluster.admin.Patch(t.Context(), p, client.MergeFrom(was)))
		require.NotNil(c, p.Spec.HealthCheck, "dropped by the old CRD")
	})

	rollback := action.NewRollback(r.configuration())
	rollback.Timeout = patience
	require.NoError(t, rollback.Run(r.name))
	require.False(t, knows(t, "healthCheck"), "a rollback goes all the way")
	require.Equal(t, uid, crd(t).UID)
	require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p), "and loses no Proxy")
	var d appsv1.Deployment
	require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKey{Namespace: r.ns, Name: "proxy-operator"}, &d))
	require.Contains(t, d.Spec.Template.Spec.Containers[0].Args, "--max-concurrent-reconciles=2")
}

func TestAnUpgradeReplacesNoProxyAndRefusesNoWrite(t *testing.T) {
	r, w := newRelease(t), newWorld(t)
	_, err := r.tryInstall(earlierChart(t), nil)
	require.NoError(t, err)
	old := w.start(r)
	awaitServed(t)
	p := ready(t, proxy(t, r.ns, "serves"))

	stop, written := make(chan struct{}), make(chan int)
	go func() { // a user who goes on writing
		n := 0
		defer func() { written <- n }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			now := p.DeepCopy()
			metav1.SetMetaDataAnnotation(&now.ObjectMeta, "example.com/n", strings.Repeat("x", n%7))
			if !assert.NoError(t, cluster.admin.Patch(t.Context(), now, client.MergeFrom(p))) {
				return
			}
			n++
		}
	}()
	r.upgrade(loadChart(t), nil)
	old.stop()
	w.start(r)
	close(stop)
	require.Greater(t, <-written, 5)
	require.Never(t, func() bool { return w.machines() != 1 }, 3*time.Second, 100*time.Millisecond)
	after := ready(t, p)
	require.Equal(t, p.Status.ProviderID, after.Status.ProviderID)
	require.Equal(t, p.Status.Instance, after.Status.Instance)
}

// cert-manager/cert-manager#5817, #4576, piraeusdatastore/helm-charts#101, dominodatalab/hephaestus#73: with the CRDs went all that
// people had made.
func TestAnUninstallationKeepsProxiesAndMachinesAndANewOneTakesThemOver(t *testing.T) {
	r, w := newRelease(t), newWorld(t)
	rel := r.install(nil)
	operator := w.start(r)
	awaitServed(t)
	p := ready(t, proxy(t, r.ns, "stays"))
	operator.stop() // first, while it may still give its lease back: the next one would wait for 15 s
	response := r.uninstall()
	require.Contains(t, response.Info, "[CustomResourceDefinition] "+crdName)
	r.requireGone(rel, "CustomResourceDefinition")
	require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	require.Equal(t, 1, w.machines())

	r.install(nil) // takes the CRD that its namesake left
	w.start(r)
	after := ready(t, p)
	require.Equal(t, p.Status.ProviderID, after.Status.ProviderID)
	require.NoError(t, cluster.admin.Delete(t.Context(), grown(t, after)))
	eventually(t, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(p), after)))
		require.Zero(c, w.machines())
	})
}

// datastax/cass-operator#304: a change of the chart took the CRD out of its templates, and the upgrade deleted it.
func TestSwitchingTheCRDOffDoesNotDeleteIt(t *testing.T) {
	r := newRelease(t)
	r.install(nil)
	uid := crd(t).UID
	r.upgrade(loadChart(t), parse(t, "crds: {enabled: false}"))
	require.Equal(t, uid, crd(t).UID)
	require.Nil(t, crd(t).DeletionTimestamp)
}

// aws/karpenter-provider-aws#5096, #8908, #6778, #7420, #6847: CRDs of another origin that a chart can't adopt.
// kubeflow/spark-operator#2785, prometheus-community/helm-charts#2489: two writers of one CRD.
func TestACRDOfAnotherOriginIsAdopted(t *testing.T) {
	for origin, makeIt := range map[string]func(t *testing.T, r *installed){
		"kubectl apply -k config/crd": func(t *testing.T, _ *installed) {
			raw, err := os.ReadFile(filepath.Join(root, "config", "crd", "bases", "crawl.proxy-operator.io_proxies.yaml"))
			require.NoError(t, err)
			for _, o := range objects(t, string(raw)) {
				require.NoError(t, cluster.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl")))
			}
		},
		"a release of another name": func(t *testing.T, r *installed) {
			other := &installed{t: t, ns: r.ns, name: "earlier"}
			other.install(nil)
			other.uninstall()
		},
	} {
		t.Run(origin, func(t *testing.T) {
			r := newRelease(t)
			makeIt(t, r)
			uid := crd(t).UID
			_, err := r.tryInstall(loadChart(t), nil)
			require.ErrorContains(t, err, "invalid ownership metadata")
			rel, err := r.tryInstall(loadChart(t), nil, func(a *action.Install) { a.TakeOwnership, a.Replace = true, true })
			require.NoError(t, err, "docs/install/helm.md says --take-ownership")
			require.Equal(t, release.StatusDeployed, rel.Info.Status)
			require.Equal(t, uid, crd(t).UID)
			r.upgrade(loadChart(t), nil)
		})
	}
}

// aws/karpenter-provider-aws#6870 and the like begin with a CRD that goes while there are objects.
func TestACRDThatIsNotKeptGoesOnlyWhenNoProxyIsLeft(t *testing.T) {
	r := newRelease(t)
	jobs := runJobs(t)
	rel := r.install(parse(t, "crds: {keep: false}"))
	awaitServed(t)
	p := proxy(t, r.ns, "left")
	_, err := r.tryUninstall(patience)
	require.Error(t, err)
	require.Contains(t, jobs.said(), "the CRDs are about to go, and with them Proxy "+r.ns+"/left")
	require.Contains(t, jobs.said(), "or set crds.keep=true")
	require.NotEmpty(t, r.live(rel), "nothing is removed")
	r.rollbackAfterAnUninstallation()
	r.upgrade(loadChart(t), parse(t, "crds: {keep: true}"))
	r.upgrade(loadChart(t), parse(t, "crds: {keep: false}"))
	require.NoError(t, cluster.admin.Delete(t.Context(), p))
	r.uninstall()
	r.requireGone(rel)
}

func TestTheRightsOfTheChartSufficeForPods(t *testing.T) {
	for name, text := range map[string]string{
		"all namespaces":    "{}",
		"chosen namespaces": "{watchNamespaces: [NS], secretWatch: false}",
	} {
		t.Run(name, func(t *testing.T) {
			r, w := newRelease(t), newWorld(t)
			r.install(parse(t, strings.ReplaceAll(text, "NS", r.ns)))
			w.startAsInstalled(r)
			awaitServed(t)
			p := proxyOf(t, "kubernetes", r.ns, "exit")
			pods := func() (all corev1.PodList) {
				require.NoError(t, cluster.admin.List(t.Context(), &all, client.InNamespace(r.ns), client.MatchingLabels{"crawl.proxy-operator.io/proxy": "exit"}))
				return all
			}
			require.Eventually(t, func() bool { return len(pods().Items) == 1 }, patience, 100*time.Millisecond)
			require.Equal(t, "ghcr.io/proxy-operator/proxy-operator:"+loadChart(t).Metadata.AppVersion, pods().Items[0].Spec.Containers[0].Image)
			secret := &corev1.Secret{}
			eventually(t, func(c *assert.CollectT) {
				require.NoError(c, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(&pods().Items[0]), secret))
			})
			require.NoError(t, cluster.admin.Delete(t.Context(), p))
			eventually(t, func(c *assert.CollectT) {
				require.True(c, apierrors.IsNotFound(cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p)))
			})
			require.Empty(t, pods().Items)
			require.True(t, apierrors.IsNotFound(cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)))
		})
	}
}

func TestTwoReleasesOfTwoNamespacesLeaveEachOtherAlone(t *testing.T) {
	a, b := newRelease(t), newRelease(t)
	worlds := map[*installed]*world{a: newWorld(t), b: newWorld(t)}
	runJobs(t)
	v := func(r *installed, crds bool) values {
		return values{"watchNamespaces": []any{r.ns}, "instance": r.ns, "crds": values{"enabled": crds}, "uninstall": values{"policy": "Delete", "timeout": "1m"}}
	}
	rel := map[*installed]*release.Release{a: a.install(v(a, true)), b: b.install(v(b, false))}
	awaitServed(t)
	proxies := map[*installed]*v1alpha1.Proxy{}
	for r, w := range worlds {
		w.start(r)
		proxies[r] = ready(t, proxy(t, r.ns, "exit"))
	}
	require.Equal(t, []int{1, 1}, []int{worlds[a].machines(), worlds[b].machines()})
	before := versions(t, b.live(rel[b]))
	a.uninstall()
	a.requireGone(rel[a], "CustomResourceDefinition")
	require.Equal(t, []int{0, 1}, []int{worlds[a].machines(), worlds[b].machines()})
	require.Equal(t, before, versions(t, b.live(rel[b])))
	require.Equal(t, proxies[b].Status.ProviderID, ready(t, proxies[b]).Status.ProviderID)
}

func versions(t *testing.T, all []*unstructured.Unstructured) string {
	t.Helper()
	v := map[string]string{}
	for _, o := range all {
		v[id(o)] = o.GetResourceVersion()
	}
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}
