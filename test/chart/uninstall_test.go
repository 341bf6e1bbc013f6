// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// aws/karpenter-provider-aws#6870, #3179, #4223, STRRL/cloudflare-tunnel-ingress-controller#197: machines that outlive the operator and
// go on costing money. ngrok/ngrok-operator#709, #750: the answer.
func TestThePolicyDeleteRemovesEveryMachineBeforeTheOperatorGoes(t *testing.T) {
	r, w := newRelease(t), newWorld(t)
	jobs := runJobs(t)
	rel := r.install(parse(t, "uninstall: {policy: Delete}"))
	w.start(r)
	awaitServed(t)
	elsewhere := namespace(t, "crawl-")
	var all []*v1alpha1.Proxy
	for i := range 3 {
		all = append(all, proxy(t, []string{r.ns, elsewhere, elsewhere}[i], fmt.Sprintf("exit-%d", i)))
	}
	external := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "external"},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: "proxy.example.com", Port: 3128}},
	}
	require.NoError(t, cluster.admin.Create(t.Context(), external))
	for _, p := range all {
		ready(t, p)
	}
	require.Equal(t, 3, w.machines())
	r.uninstall()
	jobs.requireSucceeded()
	require.Zero(t, w.machines())
	var left v1alpha1.ProxyList
	require.NoError(t, cluster.admin.List(t.Context(), &left))
	require.Empty(t, left.Items)
	r.requireGone(rel, "CustomResourceDefinition")
}

func TestAnUninstallationThatTakesTooLongSaysWhatIsLeftAndRemovesNothing(t *testing.T) {
	r, w := newRelease(t), newWorld(t)
	jobs := runJobs(t)
	rel := r.install(parse(t, "uninstall: {policy: Delete, timeout: 2s}"))
	w.start(r)
	awaitServed(t)
	p := ready(t, proxy(t, r.ns, "paused"))
	was := p.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationPaused, "true")
	require.NoError(t, cluster.admin.Patch(t.Context(), p, client.MergeFrom(was)))
	_, err := r.tryUninstall(patience)
	require.Error(t, err)
	require.Contains(t, jobs.said(), "after 2s these are left: Proxy "+r.ns+"/paused (paused)")
	require.Contains(t, jobs.said(), "uninstall.policy=Retain")
	require.NotEmpty(t, r.live(rel))
	require.Equal(t, 1, w.machines())
	// The rights of the job aren't left behind for others to use.
	var roles rbacv1.ClusterRoleList
	require.NoError(t, cluster.admin.List(t.Context(), &roles, client.MatchingLabels{"app.kubernetes.io/component": "uninstall"}))
	require.Empty(t, roles.Items)

	was = p.DeepCopy()
	delete(p.Annotations, v1alpha1.AnnotationPaused)
	require.NoError(t, cluster.admin.Patch(t.Context(), p, client.MergeFrom(was)))
	r.uninstall()
	require.Zero(t, w.machines())
	r.requireGone(rel, "CustomResourceDefinition")
}

// An operator of all namespaces beside one of its own instance, as docs/install/helm.md has it.
func TestThePolicyDeleteLeavesAnotherInstallationsProxiesAlone(t *testing.T) {
	r, w := newRelease(t), newWorld(t)
	jobs := runJobs(t)
	r.install(parse(t, "uninstall: {policy: Delete}"))
	w.start(r)
	awaitServed(t)
	own := ready(t, proxy(t, r.ns, "own"))
	theirs := ready(t, proxy(t, r.ns, "theirs"))
	was := theirs.DeepCopy()
	intent := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(theirs.Annotations[v1alpha1.AnnotationIntent]), &intent))
	intent["installation"] = "another"
	raw, err := json.Marshal(intent)
	require.NoError(t, err)
	theirs.Annotations[v1alpha1.AnnotationIntent] = string(raw)
	require.NoError(t, cluster.admin.Patch(t.Context(), theirs, client.MergeFrom(was)))

	r.upgrade(loadChart(t), parse(t, "{uninstall: {policy: Delete}, crds: {keep: false}}"))
	_, err = r.tryUninstall(patience)
	require.Error(t, err)
	require.Contains(t, jobs.said(), "the CRDs are about to go, and with them Proxy "+r.ns+"/theirs of another installation")
	require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(own), own))
	require.Zero(t, own.DeletionTimestamp)

	r.rollbackAfterAnUninstallation()
	r.uninstall()
	require.Contains(t, jobs.said(), `"left alone, as they are another installation's; the CRDs must stay for them","proxies":"Proxy `+r.ns+`/theirs"`)
	require.True(t, apierrors.IsNotFound(cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(own), own)))
	require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
	require.Zero(t, theirs.DeletionTimestamp)
}

func TestAnUninstallationWithoutAnOperatorSaysSo(t *testing.T) {
	r, w := newRelease(t), newWorld(t)
	jobs := runJobs(t)
	r.install(parse(t, "uninstall: {policy: Delete, timeout: 2s}"))
	operator := w.start(r)
	awaitServed(t)
	ready(t, proxy(t, r.ns, "exit"))
	operator.stop()
	_, err := r.tryUninstall(patience)
	require.Error(t, err)
	require.Contains(t, jobs.said(), "No operator works that would remove their machines: nobody holds the lease "+r.ns+"/proxy-operator-default.crawl.proxy-operator.io")
}

// tigera/operator#2031, rancher/elemental-operator#314, fluent/fluent-operator#132, k0rdent/kcm#887: a chart that was removed by force
// leaves objects that can't go. The steps are those of docs/install/helm.md.
func TestAfterAForcedRemovalANewInstallationFinishes(t *testing.T) {
	r, w := newRelease(t), newWorld(t)
	r.install(parse(t, "uninstall: {policy: Delete}"))
	operator := w.start(r)
	awaitServed(t)
	p := ready(t, proxy(t, r.ns, "stuck"))
	operator.stop()
	_, err := r.tryUninstall(patience, func(a *action.Uninstall) { a.DisableHooks = true })
	require.NoError(t, err)
	grown(t, p)
	require.NoError(t, cluster.admin.Delete(t.Context(), crd(t)))
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p), "its finalizer holds it")
		require.NotNil(c, p.DeletionTimestamp)
	})
	require.Equal(t, 1, w.machines())

	r.install(parse(t, "crds: {enabled: false}")) // the CRD can't be made anew before it is gone
	w.start(r)
	eventually(t, func(c *assert.CollectT) {
		err := cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p)
		require.True(c, apierrors.IsNotFound(err) || meta.IsNoMatchError(err), "%v", err)
		require.Zero(c, w.machines())
	})
}

func TestTheJobHasNoMoreRightsThanItNeeds(t *testing.T) {
	proxies := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"crawl.proxy-operator.io"}, Resources: []string{"proxies"}, Verbs: verbs}
	}
	whichCluster := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}}
	for name, c := range map[string]struct {
		why, values string
		want        []rbacv1.PolicyRule
	}{
		"Delete":                              {"it tells its own Proxies from others'", "uninstall: {policy: Delete}", []rbacv1.PolicyRule{proxies("list", "delete"), whichCluster}},
		"Delete where the cluster has a name": {"nobody is asked", "{uninstall: {policy: Delete}, clusterID: one}", []rbacv1.PolicyRule{proxies("list", "delete")}},
		"Retain":                              {"it only looks whether there are any", "crds: {keep: false}", []rbacv1.PolicyRule{proxies("list")}},
	} {
		all := render(t, parse(t, c.values))
		require.Equal(t, c.want, one[rbacv1.ClusterRole](t, all, "ClusterRole", releaseNS+":"+fullName+":uninstall").Rules, "%s: %s", name, c.why)
	}
	all := render(t, valuesFiles(t)["namespaced"])
	require.Empty(t, ofKind(all, "ClusterRole", "ClusterRoleBinding"))
	require.Empty(t, ofKind(render(t, nil), "Job"), "with everything kept there is nothing to do")
}

func TestHelmTestFindsOutWhetherTheOperatorWorks(t *testing.T) {
	r, w := newRelease(t), newWorld(t)
	jobs := runJobs(t, "--timeout=3s")
	r.install(parse(t, "judge: {enabled: false}")) // a Service leads nowhere without pods
	check := func() error {
		a := action.NewReleaseTesting(r.configuration())
		a.Timeout = patience
		_, err := a.Run(r.name)
		return err
	}
	require.Error(t, check())
	require.Contains(t, jobs.said(), "after 3s: get the lease "+r.ns+"/proxy-operator-default.crawl.proxy-operator.io")
	operator := w.start(r)
	eventually(t, func(c *assert.CollectT) { require.NoError(c, check()) })
	operator.stop()
	require.Error(t, check())
	require.Contains(t, jobs.said(), "nobody holds the lease")
	var left corev1.PodList
	require.NoError(t, cluster.admin.List(t.Context(), &left, client.InNamespace(r.ns)))
	require.Len(t, left.Items, 1, "the pod of a test that failed stays, for its log")
	_, err := r.tryUninstall(time.Minute)
	require.NoError(t, err)
}

func TestAMistakeInTheFlagsOfAHookIsOneLine(t *testing.T) {
	for flags, want := range map[string]string{
		"uninstall --policy=Keep":                         "--policy=Keep: write Retain or Delete",
		"uninstall --policy=Delete --timeout=0s":          "--timeout=0s: write more than 0",
		"uninstall --watch-namespaces=a,,b":               "--watch-namespaces=a,,b",
		"uninstall --watch-namespaces=":                   "--watch-namespaces is empty",
		"uninstall --lease=lease":                         "--lease=lease: write NAMESPACE/NAME",
		"uninstall --kubeconfig=/nonexistent":             "find the cluster",
		"check":                                           "name a --lease or a --url",
		"check --lease=lease":                             "--lease=lease: write NAMESPACE/NAME",
		"check --url=http://127.0.0.1:1/ --timeout=100ms": "ask for http://127.0.0.1:1/",
	} {
		out, err := exec.CommandContext(t.Context(), cluster.binary, strings.Fields(flags)...).CombinedOutput()
		require.Error(t, err, flags)
		require.True(t, strings.HasPrefix(string(out), "Error: "), "%s", out)
		require.Contains(t, string(out), want)
		require.Equal(t, 1, strings.Count(string(out), "\n"), "%s", out)
	}
}
