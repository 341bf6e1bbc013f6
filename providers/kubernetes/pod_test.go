// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/providers"
)

var update = flag.Bool("update", false, "write testdata anew")

// Every field of the section, as a user writes it.
const section = `
resources: {requests: {cpu: 100m}, limits: {cpu: "1", memory: 256Mi}}
nodeSelector: {pool: exits}
tolerations: [{key: exits, operator: Exists, effect: NoSchedule}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {team: crawl}}}}]}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {team: crawl}}}]
imagePullSecrets: [{name: registry}]
imagePullPolicy: Always
serviceAccountName: exits
`

func withSection(t *testing.T, text string) func(*providers.CreateRequest) {
	t.Helper()
	pod := &providers.Pod{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), pod))
	return func(r *providers.CreateRequest) { r.Pod = pod }
}

func withAuth(r *providers.CreateRequest) { r.Username, r.Password = "crawler", "hunter2-hunter2" }

// shapes are the requests of testdata, by file.
func shapes(t *testing.T) map[string]providers.CreateRequest {
	t.Helper()
	of := func(change ...func(*providers.CreateRequest)) providers.CreateRequest {
		return requestOf("golden", change...)
	}
	return map[string]providers.CreateRequest{
		"plain":       of(),
		"with-auth":   of(withAuth, labelled("team", "crawl")),
		"low-port":    of(func(r *providers.CreateRequest) { r.Port = 80 }),
		"own-image":   of(withAuth, func(r *providers.CreateRequest) { r.Image, r.Protocol = "registry.example.com/squid:6", "SOCKS5" }),
		"every-field": of(withSection(t, section)),
	}
}

func TestBuildPod(t *testing.T) {
	for name, req := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			pod := buildPod(account, ownImage, req)
			got, err := yaml.Marshal([]any{pod, buildSecret(account, req, pod)})
			require.NoError(t, err)
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "go test -update writes it anew; a pod that changes doesn't change those that run")
		})
	}
}

// The golden pods are what a namespace takes that enforces the strictest Pod Security Standard.
func TestEveryPodKeepsToTheRestrictedStandard(t *testing.T) {
	ns := namespace(t, map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"})
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	for name, req := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			req.Tags.Namespace = ns
			pod := buildPod(account, ownImage, req)
			_, err := cluster.admin.CoreV1().Pods(ns).Create(t.Context(), pod, dry)
			require.NoError(t, err)
			_, err = cluster.admin.CoreV1().Secrets(ns).Create(t.Context(), buildSecret(account, req, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: req.Name, UID: "a-uid"}}), dry)
			require.NoError(t, err)
			pod.Spec.Containers[0].SecurityContext = nil
			_, err = cluster.admin.CoreV1().Pods(ns).Create(t.Context(), pod, dry)
			require.True(t, apierrors.IsForbidden(err), "the namespace must refuse others: %v", err)
		})
	}
}

func TestSmallRequestsAreAddedWhereNothingIsSaid(t *testing.T) {
	cases := map[string]struct{ why, said, want string }{
		"nothing":                   {"a pod without requests is the first to be evicted", `{nodeSelector: {a: b}}`, `{requests: {cpu: 10m, memory: 32Mi}}`},
		"a request for CPU":         {"the rest is still added", `{resources: {requests: {cpu: 1}}}`, `{requests: {cpu: 1, memory: 32Mi}}`},
		"a limit below the default": {"a request above its limit is refused", `{resources: {limits: {memory: 16Mi}}}`, `{requests: {cpu: 10m}, limits: {memory: 16Mi}}`},
		"limits of both":            {"the API server requests what is limited", `{resources: {limits: {memory: 16Mi, cpu: 1}}}`, `{limits: {memory: 16Mi, cpu: 1}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := request(t, withSection(t, c.said))
			var want corev1.ResourceRequirements
			require.NoError(t, yaml.UnmarshalStrict([]byte(c.want), &want))
			got := buildPod(account, ownImage, req).Spec.Containers[0].Resources
			require.True(t, apiequal(want, got), "%s: %+v", c.why, got)
			require.True(t, apiequal(request(t, withSection(t, c.said)).Pod, req.Pod), "the request is left as it was")
		})
	}
}

func TestCheck(t *testing.T) {
	p := provider(t)
	cases := map[string]struct {
		why    string
		change func(*providers.CreateRequest)
		field  string // empty: it is taken
	}{
		"a plain request":           {"it must not refuse what Create takes", func(*providers.CreateRequest) {}, ""},
		"a zone":                    {"nobody would act on it", func(r *providers.CreateRequest) { r.Key.Zone = "a" }, "spec.location.zones"},
		"HTTPS of the own image":    {"it has no certificate", func(r *providers.CreateRequest) { r.Protocol = "HTTPS" }, "spec.protocol"},
		"SOCKS5 of another image":   {"that is its business", func(r *providers.CreateRequest) { r.Protocol, r.Image = "SOCKS5", "dante:1" }, ""},
		"no port":                   {"a probe needs one", func(r *providers.CreateRequest) { r.Port = 0 }, "spec.port"},
		"a user name with a colon":  {"the forward proxy would not start", func(r *providers.CreateRequest) { r.Username, r.Password = "a:b", "c" }, "spec.auth.secretRef"},
		"a label of a cloud":        {"the API server would refuse the pod", labelled("Team_A/x", "y"), "spec.labels"},
		"a label that marks pods":   {"lists select by it", labelled(labelManagedBy, "me"), "spec.labels"},
		"a label as pods have them": {"all that pods take is taken", labelled("example.com/Team_1", "Crawl.a-B_2"), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := p.Check(request(t, c.change))
			if c.field == "" {
				require.NoError(t, err, c.why)
				return
			}
			e := failure(t, err)
			require.Equal(t, providers.Permanent, e.Class, c.why)
			require.Equal(t, c.field, e.Field, c.why)
			require.NotEmpty(t, e.Want, c.why)
		})
	}
}

func TestConfiguration(t *testing.T) {
	parse := func(section string) (providers.Registry, error) {
		return providers.ParseConfig([]byte("accounts:\n- name: pods\n  type: kubernetes\n"+section), map[string]providers.Factory{
			"kubernetes": Factory(Options{Image: ownImage}),
		})
	}
	imageOf := func(section string) string {
		reg, err := parse(section)
		require.NoError(t, err)
		return reg["pods"].Provider.(*Provider).image
	}
	require.Equal(t, ownImage, imageOf(""))
	require.Equal(t, "mirror.example.com/proxy-operator:v1", imageOf("  kubernetes: {image: 'mirror.example.com/proxy-operator:v1'}\n"))
	_, err := parse("  kubernetes: {image: 'no image'}\n")
	require.ErrorContains(t, err, `line 4: accounts[0].kubernetes.image: "no image" is not the name of an image; write it without spaces, like registry.example.com/squid:6.12`)
	_, err = parse("  kubernetes: {zones: [a]}\n")
	require.ErrorContains(t, err, "accounts[0].kubernetes.zones")
}

// The record is all that a pod is compared with; the image that the account brings must not be in it.
func TestTheDefaultImageIsNoPartOfTheRecord(t *testing.T) {
	before, after := buildPod(account, ownImage, request(t)), buildPod(account, "registry.example.com/proxy-operator:v2", request(t))
	require.NotEqual(t, before.Spec.Containers[0].Image, after.Spec.Containers[0].Image)
	require.Equal(t, before.ObjectMeta, after.ObjectMeta)
}

func TestAnImageThatNoPodCanHaveIsRefusedBeforeAPodIsMade(t *testing.T) {
	req := request(t, func(r *providers.CreateRequest) { r.Image = "registry.example.com/Team/squid:6" })
	e := failure(t, provider(t).Check(req))
	require.Equal(t, providers.Permanent, e.Class)
	require.Equal(t, "spec.image", e.Field)
	require.Equal(t, "write the repository in lower case; only registry and tag may have upper-case letters", e.Want)
}
