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
		"a flag and its value in one text":           {"it would be one argument", "extraArgs: ['--kubeconfig a']", "extraArgs"},
		"no time to delete in":                       {"the job would end at once, when Helm takes no upgrade any more", "uninstall: {timeout: 0s}", "timeout"},
		"no time in several units":                   {"the same", "uninstall: {timeout: 0h0m0.0s}", "timeout"},
		"more time than can be counted":              {"the same", "uninstall: {timeout: 999999999999999999h}", "timeout"},
		"probes without a pause":                     {"the operator would end at once", "health: {enabled: false, interval: 0s}", "interval"},
		"a name with a line break":                   {"it put a label of its own on every object", `nameOverride: "x\nevil: injected"`, "nameOverride"},
		"a name that reads as a map":                 {"a label is a text", "nameOverride: '{a: b}'", "nameOverride"},
		"a name with dots":                           {"no Service is named so", "fullnameOverride: a.b", "fullnameOverride"},
		"an account's name with two dots":            {"no object is named so", "serviceAccount: {name: a..b}", "serviceAccount"},
		"an account's name with a hyphen at a dot":   {"no object is named so", "serviceAccount: {name: a.-b}", "serviceAccount"},
		"a budget of 23 digits":                      {"the operator would end at once", "disruptionBudget: '99999999999999999999999'", "disruptionBudget"},
		"an address beyond its bits":                 {"the operator would end at once", "health: {denyCIDRs: [10.0.0.0/99]}", "denyCIDRs"},
		"an address that is none":                    {"the operator would end at once", "health: {denyCIDRs: [./1]}", "denyCIDRs"},
		"a proxies' image of one blank":              {"no pod could be made", "proxyImage: ' '", "proxyImage"},
		"an account's image that is empty":           {"the operator would refuse its file", "providers: {a: {type: kubernetes, kubernetes: {image: ''}}}", "image"},
		"an account's image that is none":            {"no pod could be made", "providers: {a: {type: kubernetes, kubernetes: {image: not an image!}}}", "image"},
		"a tag with a blank":                         {"the pull would fail", "image: {tag: v 1}", "tag"},
		"a tag with its colon":                       {"the pull would fail", "image: {tag: ':v1'}", "tag"},
		"a registry with a slash":                    {"the pull would fail", "image: {registry: r.example.com/}", "registry"},
		"a registry as a URL":                        {"the pull would fail", "image: {registry: 'https://r.example.com'}", "registry"},
		"a parent's registry as a URL":               {"the pull would fail", "global: {imageRegistry: 'https://r.example.com'}", "imageRegistry"},
		"a repository in capitals":                   {"the pull would fail", "image: {repository: A/B}", "repository"},
		"a repository with a tag":                    {"the pull would fail", "image: {repository: 'a/b:v1'}", "repository"},
		"more replicas than an API server counts":    {"it is an int32", "replicas: 3000000000", "replicas"},
		"more judges than an API server counts":      {"it is an int32", "judge: {replicas: 3000000000}", "replicas"},
		"more time to end than can be counted":       {"it became negative", "terminationGracePeriodSeconds: 1e19", "terminationGracePeriodSeconds"},
		"more work at a time than can be counted":    {"it became negative", "maxConcurrentReconciles: 1e19", "maxConcurrentReconciles"},
		"more machines than can be counted":          {"the operator would refuse its file", "providers: {a: {type: kubernetes, limits: {maxInstances: 1e20}}}", "maxInstances"},
		"a user beyond all":                          {"the API server takes an int32", "podSecurityContext: {runAsUser: 99999999999}", "runAsUser"},
		"a label's key that is none":                 {"every object would be refused", "commonLabels: {'a b': c}", "commonLabels"},
		"a label's value that is none":               {"every object would be refused", "commonLabels: {a: 'b c'}", "commonLabels"},
		"an annotation's key that is none":           {"every object would be refused", "commonAnnotations: {'a b': c}", "commonAnnotations"},
		"a parent's pull secret without a name":      {"its name would be empty", "global: {imagePullSecrets: [{}]}", "imagePullSecrets"},
		"a parent's pull secret that is a number":    {"its name would be empty", "global: {imagePullSecrets: [5]}", "imagePullSecrets"},
		"a volume without a name":                    {"the pod would be refused", "extraVolumes: [{emptyDir: {}}]", "name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template(t, loadChart(t), parse(t, c.values))
			require.Error(t, err, c.why)
			require.Contains(t, err.Error(), "values don't meet the specifications of the schema")
			require.Contains(t, err.Error(), c.names)
			require.NotContains(t, err.Error(), "got object, want null", "an account may be null, which is beside the point")
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
		"labels and annotations":                  "commonLabels: {team: crawl, example.com/of: ''}\npodAnnotations: {a: b, Example.com/x: 'any text'}",
		"a budget in ciphers":                     "disruptionBudget: '3'",
		"a registry with a port and a path":       "image: {registry: 'localhost:5000/mirror', repository: a__b/c-d.e, tag: v1.0_x}",
		"a repository with its registry":          "image: {registry: '', repository: 'r.example.com:5000/a/b'}",
		"nulls of a parent chart":                 "global: {imageRegistry: null, imagePullSecrets: null}",
		"pull secrets of a parent, in both forms": "global: {imagePullSecrets: [a, {name: b}]}",
		"a field of an account taken back":        "providers: {a: {type: kubernetes, enabled: null, allowedNamespaces: null, limits: {burst: null}, orphans: null}}",
		"addresses of both families":              "health: {denyCIDRs: [0.0.0.0/0, 169.254.0.0/16, '::/0', 'fd00::/8', '::ffff:10.0.0.0/104', 'fe80::1/128']}",
		"targets with commas and quotes":          `health: {targets: ['http://example.com/?a=1,2', 'http://example.com/"x']}`,
		"no rights on CRDs":                       "crds: {enabled: false}",
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
		"a part that is rounded up to the whole": {
			"replicas: 2\npodDisruptionBudget: {minAvailable: 51%}", "minAvailable=51% with replicas=2", "less than replicas"},
		"a CRD that an upgrade would remove": {
			"crds: {enabled: false, keep: false}", "all Proxies with it", "set crds.keep=true"},
		"the account of the uninstall job": {
			"serviceAccount: {name: px-proxy-operator-uninstall}", "the account of a hook", "choose another name"},
		"the account of helm test": {
			"serviceAccount: {create: false, name: px-proxy-operator-test}", "the account of a hook", "choose another name"},
		"the uninstall job with the account of helm test": {
			"uninstall: {serviceAccountName: px-proxy-operator-test}", "the account of a hook", "choose another name"},
		"metrics on the port of the probes": {
			"metrics: {port: 8081}", "the port of the operator's probes", "choose another one"},
		"no leader by an argument": {
			"replicas: 2\nextraArgs: [--leader-elect=false]", "--leader-elect is the chart's own", "leave it out"},
		"the help in place of the operator": {
			"extraArgs: [--help]", "--help is the chart's own", "leave it out"},
		"namespaces by an argument": {
			"extraArgs: [--watch-namespaces=a]", "--watch-namespaces has a value of its own", "set watchNamespaces"},
		"two folders for one certificate": {
			"metrics: {certificateSecret: s}\nextraArgs: [--metrics-cert-path=/x]", "--metrics-cert-path", "set metrics.certificateSecret"},
		"a hook of every object": {
			"commonAnnotations: {helm.sh/hook: pre-delete}", "commonAnnotations: helm.sh/hook", "leave it out"},
		"an account that outlives the release": {
			"serviceAccount: {annotations: {helm.sh/resource-policy: keep}}", "serviceAccount.annotations: helm.sh/resource-policy", "leave it out"},
		"a volume of the chart's name": {
			"extraVolumes: [{name: config, emptyDir: {}}]", "has a volume config", "choose another name"},
		"a mount over the configuration": {
			"extraVolumeMounts: [{name: x, mountPath: /etc/proxy-operator/}]", "/etc/proxy-operator/ is a folder", "choose another one"},
		"a condition that nobody reads": {
			"enabled: false", "enabled=false is the condition", "leave it out"},
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
