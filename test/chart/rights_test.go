// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/kubernetes"
)

// grants are the rights that the operator's ServiceAccount gets, as "NAMESPACE group/resource verb", with * for all namespaces.
func grants(t *testing.T, all []*unstructured.Unstructured) []string {
	t.Helper()
	var found []string
	for _, o := range ofKind(all, "RoleBinding", "ClusterRoleBinding") {
		if o.GetLabels()["app.kubernetes.io/component"] != "manager" {
			continue
		}
		binding := one[rbacv1.ClusterRoleBinding](t, []*unstructured.Unstructured{o}, o.GetKind(), o.GetName())
		require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: fullName, Namespace: releaseNS}}, binding.Subjects)
		for _, role := range ofKind(all, binding.RoleRef.Kind) {
			if role.GetName() != binding.RoleRef.Name || role.GetNamespace() != o.GetNamespace() {
				continue
			}
			found = append(found, granted(one[rbacv1.ClusterRole](t, []*unstructured.Unstructured{role}, role.GetKind(), role.GetName()), o.GetNamespace())...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func granted(role rbacv1.ClusterRole, namespace string) []string {
	if namespace == "" {
		namespace = "*"
	}
	var found []string
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					found = append(found, strings.Join(append([]string{namespace, group + "/" + resource, verb}, rule.ResourceNames...), " "))
				}
			}
		}
	}
	return found
}

func TestWithAllAccountsTheRightsAreThoseOfConfigRBAC(t *testing.T) {
	var want []string
	for _, file := range []string{"role.yaml", "leader_election_role.yaml", "metrics_auth_role.yaml"} {
		raw, err := os.ReadFile(filepath.Join(root, "config", "rbac", file))
		require.NoError(t, err)
		for _, o := range objects(t, string(raw)) {
			namespace := ""
			if o.GetKind() == "Role" {
				namespace = releaseNS
			}
			want = append(want, granted(one[rbacv1.ClusterRole](t, []*unstructured.Unstructured{o}, o.GetKind(), o.GetName()), namespace)...)
		}
	}
	slices.Sort(want)
	require.Equal(t, want, grants(t, render(t, nil)))
}

// Rights on all Secrets are what security teams refuse: opensearch-project/opensearch-k8s-operator#702, bitnami/sealed-secrets#353,
// ariga/atlas#3789, agentgateway/agentgateway#3063, nginx/kubernetes-ingress#4021, clabernetes/clabernetes#227;
// ricoberger/vault-secrets-operator#51 asks for Roles.
func TestRightsAreNoMoreThanTheValuesNeed(t *testing.T) {
	cases := map[string]struct {
		why, values string
		has, hasNot []string
	}{
		"without an account of pods": {
			"nobody makes any", "providers: {kubernetes: {enabled: false}}",
			[]string{"* /secrets get", "* /secrets list", "* /secrets watch"}, []string{"* /pods create", "* /pods list", "* /secrets create", "* /secrets delete"}},
		"without a watch for Secrets": {
			"each is read when it is needed", "providers: {kubernetes: {enabled: false}}\nsecretWatch: false",
			[]string{"* /secrets get"}, []string{"* /secrets list", "* /secrets watch"}},
		"with pods, and without a watch for Secrets": {
			"what was left of a pod must be found", "secretWatch: false",
			[]string{"* /secrets get", "* /secrets list", "* /secrets create"}, []string{"* /secrets watch"}},
		"in chosen namespaces": {
			"none is more than a Role", "watchNamespaces: [a, b]",
			[]string{
				"a /secrets get", "b /secrets get", "a crawl.proxy-operator.io/proxies patch", "kube-system /namespaces get kube-system",
				releaseNS + " /configmaps create", releaseNS + " coordination.k8s.io/leases update",
			},
			[]string{"* /secrets get", releaseNS + " /secrets get", "a /namespaces get kube-system"}},
		"with an identity of the cluster": {
			"nobody asks for the UID of kube-system", "watchNamespaces: [a]\nclusterID: c",
			[]string{"a /secrets get"}, []string{"kube-system /namespaces get kube-system"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := render(t, parse(t, c.values))
			found := grants(t, all)
			for _, g := range c.has {
				require.Contains(t, found, g, c.why)
			}
			for _, g := range c.hasNot {
				require.NotContains(t, found, g, c.why)
			}
			if strings.Contains(c.values, "watchNamespaces") {
				require.Empty(t, ofKind(all, "ClusterRole", "ClusterRoleBinding"))
			}
		})
	}
}

func TestNamesOfRolesTellReleasesApart(t *testing.T) {
	for _, o := range ofKind(render(t, nil), "ClusterRole", "ClusterRoleBinding") {
		require.True(t, strings.HasPrefix(o.GetName(), releaseNS+":"+fullName), o.GetName())
	}
	for _, o := range ofKind(render(t, valuesFiles(t)["namespaced"]), "Role", "RoleBinding") {
		if o.GetNamespace() != releaseNS {
			require.True(t, strings.HasPrefix(o.GetName(), releaseNS+":"+fullName), "%s is in a namespace of others", id(o))
		}
	}
}

// The operator refuses a file with a field that it doesn't know, and a flag.
func TestTheOperatorTakesItsConfigurationAndArguments(t *testing.T) {
	types := map[string]providers.Factory{
		"kubernetes": kubernetes.Factory(kubernetes.Options{Image: "example.com/x:1", Clock: clock.RealClock{}, Log: logr.Discard()}),
	}
	all := valuesFiles(t)
	all["an account switched off by the word Off"] = parse(t, "providers: {kubernetes: {orphans: Off}}")
	all["a large limit"] = parse(t, "providers: {kubernetes: {limits: {maxInstances: 20000000, callsPerSecond: 0.5}}}")
	for name, v := range all {
		t.Run(name, func(t *testing.T) {
			objects := render(t, v)
			text := one[corev1.ConfigMap](t, objects, "ConfigMap", fullName).Data["operator.yaml"]
			registry, err := providers.ParseConfig([]byte(text), types)
			require.NoError(t, err, text)
			if name != "everything-off" {
				require.NotEmpty(t, registry)
			}
			config := filepath.Join(t.TempDir(), "operator.yaml")
			require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
			var args []string
			for _, a := range managerOf(t, objects).Spec.Template.Spec.Containers[0].Args {
				if !strings.HasPrefix(a, "--metrics-cert-path") { // a mounted Secret
					args = append(args, a)
				}
			}
			args = append(args, "--config="+config, "--kubeconfig=/nonexistent", "--leader-election-namespace=x",
				"--metrics-bind-address=0", "--health-probe-bind-address=0")
			out, err := exec.CommandContext(t.Context(), cluster.binary, args...).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), "Error: find the cluster: ", "all before that was good")
		})
	}
}
