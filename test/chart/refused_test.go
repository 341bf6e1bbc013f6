// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Helm takes a null for "without its default": crds.keep=null was as good as false, and instance=null a crash.
func TestANullIsRefusedAtEveryLevel(t *testing.T) {
	c := loadChart(t)
	var paths []string
	var walk func(path string, v values)
	walk = func(path string, v values) {
		for name, sub := range v {
			at := strings.TrimPrefix(path+"."+name, ".")
			paths = append(paths, at)
			switch at {
			case "nodeSelector", "resources", "hookResources", "judge.resources", "serviceMonitor.tlsConfig", "dashboard.labels", "providers":
				continue // what is in them is the user's
			}
			if m, ok := sub.(values); ok {
				walk(at, m)
			}
		}
	}
	walk("", c.Values)
	require.Greater(t, len(paths), 80)
	for _, path := range slices.Sorted(slices.Values(paths)) {
		if path == "replicas" || path == "global" {
			continue // a null has a meaning there
		}
		v, err := strvals.Parse(path + "=null")
		require.NoError(t, err)
		_, err = template(t, loadChart(t), v)
		require.Error(t, err, path)
		require.Contains(t, err.Error(), "values don't meet the specifications of the schema", path)
		require.Contains(t, err.Error(), "missing property '"+path[strings.LastIndex(path, ".")+1:]+"'", path)
	}
	for _, path := range []string{"replicas", "global"} {
		_, err := template(t, loadChart(t), values{path: nil})
		require.NoError(t, err, path)
	}
}

func TestANullOfAParentChartIsRefusedToo(t *testing.T) {
	_, err := template(t, parentOf(t, "proxy-operator: {replicas: 2}"), parse(t, "proxy-operator: {crds: {keep: null}}"))
	require.ErrorContains(t, err, "keep")
	_, err = template(t, parentOf(t, "proxy-operator: {replicas: 2}"), parse(t, "proxy-operator: {judge: {replicas: 2}}"))
	require.NoError(t, err)
}

// A file makes a number a float64, and --set an int64: a check that asks for one of the two lets the other pass.
func TestABudgetThatBlocksEveryDrainIsRefusedHoweverItIsWritten(t *testing.T) {
	for _, set := range []string{"2", "5", "51%", "99%"} {
		v, err := strvals.Parse("replicas=2,podDisruptionBudget.minAvailable=" + set)
		require.NoError(t, err)
		_, err = template(t, loadChart(t), v)
		require.ErrorContains(t, err, "lets no pod be evicted", set)
	}
	for _, text := range []string{"1", "50%", "08%"} {
		v := parse(t, "replicas: 2\npodDisruptionBudget: {minAvailable: "+text+"}")
		budget := one[policyv1.PodDisruptionBudget](t, render(t, v), "PodDisruptionBudget", fullName)
		require.Equal(t, text, budget.Spec.MinAvailable.String())
	}
}

// The uninstall job, helm test, probes and roles are made from values: an argument that is written a second time would part them.
func TestNoArgumentOfTheChartCanBeWrittenTwice(t *testing.T) {
	args := map[string]bool{}
	all := valuesFiles(t)
	all["metrics by HTTP"] = parse(t, "metrics: {serve: http}")
	for _, v := range all {
		rendered, err := template(t, loadChart(t), v)
		require.NoError(t, err)
		own := managerOf(t, manifests(t, rendered)).Spec.Template.Spec.Containers[0].Args
		extra, _ := v["extraArgs"].([]any)
		for _, arg := range own[1 : len(own)-len(extra)] {
			args[arg] = true
		}
	}
	require.Greater(t, len(args), 20)
	for _, arg := range slices.Sorted(maps.Keys(args)) {
		_, err := template(t, loadChart(t), values{"extraArgs": []any{arg}, "metrics": values{"certificateSecret": "s"}})
		require.ErrorContains(t, err, "extraArgs: "+strings.SplitN(arg, "=", 2)[0], arg)
	}
}

func TestALargeNumberIsWrittenInCiphers(t *testing.T) {
	args := managerOf(t, render(t, parse(t, "disruptionBudget: 1000000"))).Spec.Template.Spec.Containers[0].Args
	require.Contains(t, args, "--disruption-budget=1000000")
	args = managerOf(t, render(t, parse(t, "disruptionBudget: 10%"))).Spec.Template.Spec.Containers[0].Args
	require.Contains(t, args, "--disruption-budget=10%")
}

func TestALabelIsATextWhateverTheNameIs(t *testing.T) {
	for _, name := range []string{"123", "true", "1e3", "null"} {
		manager := managerOf(t, render(t, values{"nameOverride": name, "fullnameOverride": fullName}))
		require.Equal(t, name, manager.Labels["app.kubernetes.io/name"])
		require.Equal(t, name, manager.Spec.Selector.MatchLabels["app.kubernetes.io/name"])
		require.Equal(t, name, manager.Spec.Template.Labels["app.kubernetes.io/name"])
	}
}

func TestNamesAreThoseThatServicesTake(t *testing.T) {
	named := func(release string, v values) (string, error) {
		a := action.NewInstall(&action.Configuration{})
		a.ClientOnly, a.DryRun, a.ReleaseName, a.Namespace = true, true, release, releaseNS
		a.KubeVersion = &chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}
		r, err := a.RunWithContext(t.Context(), loadChart(t), v)
		if err != nil {
			return "", err
		}
		return ofKind(manifests(t, r), "ConfigMap")[0].GetName(), nil
	}
	for release, want := range map[string]string{"my.release": "my-release-proxy-operator", "px": fullName, "a.proxy-operator": "a-proxy-operator"} {
		got, err := named(release, nil)
		require.NoError(t, err, release)
		require.Equal(t, want, got)
	}
	got, err := named("px", values{"fullnameOverride": strings.Repeat("a", 49) + "---b"})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("a", 49), got, "the cut left hyphens at its end")
	_, err = named("1st", nil)
	require.ErrorContains(t, err, `"1st-proxy-operator"`)
	require.ErrorContains(t, err, "set fullnameOverride")
}

// What a name in a URL looks like is no place to fill in.
func TestARunbookURLIsTakenAsItIs(t *testing.T) {
	rendered, err := template(t, loadChart(t), parse(t, "prometheusRule: {renderMode: always, runbookURL: 'https://x/NAMESPACE/SERVICE.md'}"))
	require.NoError(t, err)
	require.Contains(t, rendered.Manifest, "runbook_url: https://x/NAMESPACE/SERVICE.md#proxyoperatordown")
}

// A name of an alias is one of the chart's.
func TestAnAliasOfAPartIsRefusedIfNoObjectCanBeNamedSo(t *testing.T) {
	parent := parentOf(t, "{}")
	parent.Metadata.Dependencies[0].Alias = "Two_x"
	_, err := template(t, parent, nil)
	require.ErrorContains(t, err, `"px-Two_x"`)
	require.ErrorContains(t, err, "set fullnameOverride")
}

// A quota on limits.cpu refuses pods that don't say it: the job of an uninstallation then never ran.
func TestPodsOfHooksTakeResources(t *testing.T) {
	v := parse(t, "uninstall: {policy: Delete}\nhookResources: {limits: {cpu: 100m}}")
	found := 0
	for _, p := range podsOf(t, render(t, v)) {
		if strings.Contains(p.of, "uninstall") || strings.Contains(p.of, "test") {
			found++
			require.Equal(t, corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("256Mi")}, p.spec.Containers[0].Resources.Limits, p.of)
		}
	}
	require.Equal(t, 2, found)
}

// A release that hadn't kept its CRD lost it, and every Proxy, when the next upgrade left the CRD out.
func TestAnUpgradeDoesNotTakeTheCRDAway(t *testing.T) {
	r := newRelease(t)
	r.install(parse(t, "crds: {keep: false}"))
	awaitServed(t)
	p := proxy(t, r.ns, "precious")
	try := func(text string) error {
		a := action.NewUpgrade(r.configuration())
		a.Namespace, a.Timeout = r.ns, patience
		_, err := a.RunWithContext(t.Context(), r.name, loadChart(t), parse(t, text))
		return err
	}
	require.ErrorContains(t, try("crds: {enabled: false}"), "upgrade with crds.enabled=true and crds.keep=true first")
	require.ErrorContains(t, try("crds: {enabled: false, keep: false}"), "set crds.keep=true")
	require.NoError(t, try("crds: {keep: true}"))
	require.NoError(t, try("crds: {enabled: false}"))
	require.Nil(t, crd(t).DeletionTimestamp)
	require.NoError(t, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p))
}

// A release of a chart without a value gets the default of the new one.
func TestAnUpgradeFromAChartWithoutAValueTakesItsDefault(t *testing.T) {
	r := newRelease(t)
	old := loadChart(t)
	other := func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte("hookResources"), []byte("resourcesOfHooks"))
	}
	old.Schema = other(old.Schema)
	for _, f := range slices.Concat(old.Raw, old.Templates) {
		f.Data = other(f.Data)
	}
	old = packaged(t, old, "0.0.1")
	_, err := r.tryInstall(old, parse(t, "replicas: 2"))
	require.NoError(t, err)
	a := action.NewUpgrade(r.configuration())
	a.Namespace, a.Timeout, a.ResetThenReuseValues = r.ns, patience, true
	rel, err := a.RunWithContext(t.Context(), r.name, loadChart(t), parse(t, "uninstall: {policy: Delete}"))
	require.NoError(t, err)
	require.Equal(t, int32(2), *one[appsv1.Deployment](t, manifests(t, rel), "Deployment", "proxy-operator").Spec.Replicas)
}
