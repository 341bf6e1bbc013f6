// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	sigsyaml "sigs.k8s.io/yaml"
)

func TestTheSchemaRefusesWhatCanNotBeMeant(t *testing.T) {
	cases := map[string]struct {
		why    string
		values string
		names  string // in the message
	}{
		"a misspelt value":                           {"it would be ignored", "replica: 2", "replica"},
		"a misspelt value further down":              {"the same", "image: {tags: v1}", "tags"},
		"a misspelt field of an account":             {"the operator would refuse its file", "providers: {a: {type: kubernetes, limit: {burst: 1}}}", "limit"},
		"an account without a type":                  {"nobody knows what it is", "providers: {a: {orphans: Off}}", "type"},
		"an account of an unknown type":              {"the operator would refuse its file", "providers: {a: {type: gpc}}", "type"},
		"an account of type local":                   {"its processes would live and die with the pod", "providers: {a: {type: local}}", "type"},
		"an account's name that no Proxy can write":  {"it must be a label", "providers: {A_b: {type: kubernetes}}", "A_b"},
		"an account for no namespace":                {"it reads as nobody and would mean everybody", "providers: {a: {type: kubernetes, allowedNamespaces: []}}", "allowedNamespaces"},
		"a mode of the collector that there is none": {"the operator would refuse its file", "providers: {a: {type: kubernetes, orphans: Keep}}", "orphans"},
		"replicas as a text":                         {"--set-string does that", `replicas: "2"`, "replicas"},
		"fewer replicas than none":                   {"there are no such", "replicas: -1", "replicas"},
		"a namespace that can't be":                  {"a Role can't be made there", "watchNamespaces: [Team_A]", "watchNamespaces"},
		"a namespace twice":                          {"its Role would be rendered twice", "watchNamespaces: [a, a]", "watchNamespaces"},
		"one text for many namespaces":               {"it is a list", "watchNamespaces: a,b", "watchNamespaces"},
		"an instance that names no lease":            {"the operator would end at once", "instance: My Instance", "instance"},
		"a digest of another form":                   {"the pull would fail", "image: {digest: 0123}", "digest"},
		"a target with a password":                   {"values hold no secrets", "health: {targets: ['http://user:secret@example.com/']}", "targets"},
		"a judge with a password":                    {"values hold no secrets", "judge: {url: 'http://user:secret@example.com/'}", "url"},
		"a duration without a unit":                  {"seconds or minutes", "health: {interval: 15}", "interval"},
		"a budget beyond the whole":                  {"the operator would end at once", "disruptionBudget: 150%", "disruptionBudget"},
		"an unknown policy":                          {"neither kept nor deleted", "uninstall: {policy: Keep}", "policy"},
		"a render mode of another chart":             {"never, auto or always", "serviceMonitor: {renderMode: skipIfMissing}", "renderMode"},
		"a switch for the render mode":               {"never, auto or always", "serviceMonitor: {enabled: true}", "enabled"},
		"root as user":                               {"no pod of the chart is root", "podSecurityContext: {runAsUser: 0}", "runAsUser"},
		"a pod that may be root":                     {"no pod of the chart is root", "podSecurityContext: {runAsNonRoot: false}", "runAsNonRoot"},
		"a misspelt field of the account's section":  {"the operator would refuse its file", "providers: {a: {type: kubernetes, kubernetes: {img: x}}}", "img"},
		"a port that needs a privilege":              {"the pod has none", "metrics: {port: 443}", "port"},
		"no metrics, as a switch":                    {"it is a text", "metrics: {serve: false}", "serve"},
		"an argument that is no flag":                {"the operator takes none", "extraArgs: [manager]", "extraArgs"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template(t, loadChart(t), parse(t, c.values))
			require.Error(t, err, c.why)
			require.Contains(t, err.Error(), "values don't meet the specifications of the schema")
			require.Contains(t, err.Error(), c.names)
		})
	}
}

func TestTheSchemaAcceptsWhatPeopleWrite(t *testing.T) {
	cases := map[string]string{
		"what a parent chart gives all its parts": "global: {imageRegistry: r.example.com, storageClass: fast, other: {deep: [1]}}",
		"the condition of a parent chart":         "enabled: true",
		"an account that is switched off":         "providers: {a: {type: kubernetes, enabled: false}}",
		"an account that another file has":        "providers: {a: null}",
		"a budget in numbers":                     "disruptionBudget: 3",
		"no number of replicas":                   "replicas: null",
		"no replicas for a while":                 "replicas: 0",
		"durations of several units":              "health: {bootDeadline: 1h30m, interval: 1500ms, timeout: 1s}",
		"namespaces":                              "watchNamespaces: [team-a, team-b]",
		"a limit that is a fraction":              "providers: {a: {type: kubernetes, limits: {callsPerSecond: 0.5}}}",
		"labels and annotations":                  "commonLabels: {team: crawl}\npodAnnotations: {a: b}",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template(t, loadChart(t), parse(t, text))
			require.NoError(t, err)
		})
	}
}

func TestContradictoryValuesAreRefusedWithTheWayOut(t *testing.T) {
	cases := map[string]struct{ values, says, wayOut string }{
		"the CRD of all namespaces goes with a release of some": {
			"watchNamespaces: [a]\ncrds: {keep: false}", "crds.keep=false", "set crds.keep=true"},
		"a ServiceAccount of somebody else without a name": {
			"serviceAccount: {create: false}", "serviceAccount.create=false", "set serviceAccount.name"},
		"ClusterRoles, and no roles at all": {
			"rbac: {create: false, clusterRoles: always}", "rbac.clusterRoles=always", "set rbac.create=true"},
		"a job to uninstall without rights": {
			"rbac: {create: false}\nuninstall: {policy: Delete}", "rbac.create=false", "set uninstall.serviceAccountName"},
		"a look at what is left without rights": {
			"rbac: {create: false}\ncrds: {keep: false}", "rbac.create=false", "crds.keep=true"},
		"a budget that keeps every node from being drained": {
			"replicas: 2\npodDisruptionBudget: {minAvailable: 2}", "lets no pod be evicted", "less than replicas"},
		"metrics by HTTPS without the rights for it": {
			"watchNamespaces: [a]\nmetrics: {serve: https}", "takes a ClusterRole", "set rbac.clusterRoles=always"},
		"a ServiceMonitor of no metrics": {
			"watchNamespaces: [a]\nserviceMonitor: {renderMode: always}", "no metrics are served", "set metrics.serve=http"},
		"alerts on no metrics": {
			"metrics: {serve: none}\nprometheusRule: {renderMode: auto}", "no metrics are served", "prometheusRule.renderMode=never"},
		"a section of another type": {
			"providers: {a: {type: kubernetes, kubernetes: {}, gcp: {}}}", "", ""},
		"credentials for pods": {
			"providers: {a: {type: kubernetes, credentialsSecret: s}}", "providers.a.credentialsSecret", "leave it out"},
		"an account for a namespace that nobody watches": {
			"watchNamespaces: [a]\nproviders: {p: {type: kubernetes, allowedNamespaces: [b]}}", "nobody watches b", "add it to watchNamespaces"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template(t, loadChart(t), parse(t, c.values))
			require.Error(t, err)
			require.Contains(t, err.Error(), c.says)
			require.Contains(t, err.Error(), c.wayOut)
		})
	}
}

// A value of values.yaml that the schema doesn't know is refused by Helm itself; here is the other direction.
func TestEveryValueOfTheSchemaHasADefault(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	require.NoError(t, err)
	var schema node
	require.NoError(t, json.Unmarshal(raw, &schema))
	delete(schema.Properties, "enabled") // a parent chart's
	delete(schema.Properties, "global")  // likewise
	requireDefaults(t, "", schema, loadChart(t).Values)
}

type node struct {
	Properties map[string]node `json:"properties"`
}

func requireDefaults(t *testing.T, path string, schema node, defaults map[string]any) {
	t.Helper()
	for name, sub := range schema.Properties {
		require.Contains(t, defaults, name, "%s.%s", path, name)
		if len(sub.Properties) > 0 && path+"."+name != ".podSecurityContext" {
			requireDefaults(t, path+"."+name, sub, defaults[name].(map[string]any))
		}
	}
}

// Strict schemas kept charts from being part of others: grafana/k6-operator#528, kubernetes-sigs/aws-ebs-csi-driver#2319,
// traefik/traefik-helm-chart#1439, cert-manager/cert-manager#7334, cloudpilot-ai/karpenter-provider-gcp#359.
func TestTheChartIsPartOfAnother(t *testing.T) {
	parent := parentOf(t, "proxy-operator: {providers: {pods: {type: kubernetes}, old: {type: kubernetes}}}")
	off, err := template(t, parent, parse(t, "proxy-operator: {enabled: false}"))
	require.NoError(t, err)
	require.Empty(t, manifests(t, off))
	parent = parentOf(t, "proxy-operator: {providers: {pods: {type: kubernetes}, old: {type: kubernetes}}}")
	on, err := template(t, parent, parse(t, `
global: {imageRegistry: mirror.example.com, team: crawl}
proxy-operator:
  enabled: true
  replicas: 2
  providers: {old: {enabled: false}, kubernetes: {enabled: false}}
`))
	require.NoError(t, err)
	all := manifests(t, on)
	manager := managerOf(t, all)
	require.Equal(t, int32(2), *manager.Spec.Replicas)
	require.Equal(t, "mirror.example.com/proxy-operator/proxy-operator:"+loadChart(t).Metadata.AppVersion, manager.Spec.Template.Spec.Containers[0].Image)
	require.Equal(t, []string{"pods"}, accountNames(t, all))
	require.Len(t, ofKind(all, "CustomResourceDefinition"), 1)
}

// parentOf is a chart that has ours as its part, with these values of its own.
func parentOf(t *testing.T, own string) *chart.Chart {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "charts", "proxy-operator"), os.DirFS(chartDir)))
	version := loadChart(t).Metadata.Version
	for name, text := range map[string]string{
		"values.yaml": own,
		"Chart.yaml": "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies:\n" +
			"- {name: proxy-operator, version: " + version + ", repository: '', condition: proxy-operator.enabled}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c, err := loader.Load(dir)
	require.NoError(t, err)
	return c
}

func TestTheReadmeTellsOfEveryValue(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(chartDir, "README.md"))
	require.NoError(t, err)
	told := map[string]bool{}
	for line := range strings.Lines(string(readme)) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			told[name[:strings.Index(name, "`")]] = true
		}
	}
	raw, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	require.NoError(t, err)
	var defaults map[string]any
	require.NoError(t, sigsyaml.Unmarshal(raw, &defaults))
	requireTold(t, told, "", defaults)
}

// requireTold looks for the value itself, or for all that is in it.
func requireTold(t *testing.T, told map[string]bool, path string, v any) {
	t.Helper()
	if told[path] {
		return
	}
	m, ok := v.(map[string]any)
	require.True(t, ok && len(m) > 0, "the README doesn't tell of %s: run make manifests", path)
	for name, sub := range m {
		requireTold(t, told, strings.TrimPrefix(path+"."+name, "."), sub)
	}
}
