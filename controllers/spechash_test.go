// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

func full() material {
	return material{UserData: "#cloud-config", Port: 3128, Protocol: "HTTP", Username: "u", Password: "p", Labels: map[string]string{"b": "2", "a": "1"}}
}

// fullPod has every field of the pod section.
func fullPod(t *testing.T) *v1alpha1.KubernetesPod {
	t.Helper()
	pod := &v1alpha1.KubernetesPod{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(podSection), pod))
	return pod
}

const podSection = `
resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 1000m}}
nodeSelector: {pool: exits}
tolerations:
- {key: exits, operator: Equal, value: "yes", effect: NoExecute, tolerationSeconds: 30}
- {operator: Exists}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]}]
    preferredDuringSchedulingIgnoredDuringExecution:
    - {weight: 10, preference: {matchExpressions: [{key: cores, operator: Gt, values: ["4"]}]}}
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - {weight: 1, podAffinityTerm: {topologyKey: zone, namespaces: [other], labelSelector: {matchLabels: {app: origin}}}}
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector: {matchExpressions: [{key: app, operator: Exists}]}
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, minDomains: 2, labelSelector: {matchLabels: {team: crawl}}}
imagePullSecrets: [{name: registry}]
imagePullPolicy: Always
serviceAccountName: exits
`

// TestSpecHashNeverChanges pins version v1: a hash that comes out differently rolls every fleet at the next upgrade
// (kubernetes-sigs/karpenter#957).
func TestSpecHashNeverChanges(t *testing.T) {
	require.Equal(t, "v1:"+goldenFull, specHash(full(), "uid-1"))
	require.Equal(t, "v1:"+goldenEmpty, specHash(material{Port: 3128, Protocol: "HTTP"}, "uid-1"))
	withPod := full()
	withPod.Image, withPod.Pod = "registry.example.com/squid:6", fullPod(t)
	require.Equal(t, "v1:"+goldenPod, specHash(withPod, "uid-1"), "or a newer API type writes its JSON in another way")
}

// An amount is the same however it is written.
func TestSpecHashOfResourcesIsThatOfTheirAmounts(t *testing.T) {
	hash := func(cpu string) string {
		m := full()
		m.Pod = &v1alpha1.KubernetesPod{}
		require.NoError(t, yaml.UnmarshalStrict([]byte("resources: {limits: {cpu: "+cpu+"}}"), m.Pod))
		return specHash(m, "uid-1")
	}
	require.Equal(t, hash("1000m"), hash("1"))
	require.NotEqual(t, hash("1000m"), hash("2"))
}

// What podOf loses on its way would be a field that nobody acts on.
func TestThePodSectionReachesTheProviderWhole(t *testing.T) {
	want, err := json.Marshal(fullPod(t))
	require.NoError(t, err)
	pod, err := podOf(fullPod(t))
	require.NoError(t, err)
	got, err := json.Marshal(pod)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
	section := map[string]any{}
	require.NoError(t, json.Unmarshal(want, &section))
	require.Len(t, section, reflect.TypeFor[v1alpha1.KubernetesPod]().NumField(), "podSection has every field")
	none, err := podOf(nil)
	require.NoError(t, err)
	require.Nil(t, none)
}

const (
	goldenFull  = "1eade5d025fa020aab101bbaf91c6297"
	goldenEmpty = "660fb0b5e10817231ed32d6427a4440a"
	goldenPod   = "79dcd3903861f73638b6905d50e96b69"
)

func TestSpecHashCoversEveryField(t *testing.T) {
	base := specHash(full(), "uid-1")
	seen := map[string]string{base: "none"}
	for i := range reflect.TypeFor[material]().NumField() {
		m := full()
		name := reflect.TypeFor[material]().Field(i).Name
		switch f := reflect.ValueOf(&m).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int32:
			f.SetInt(f.Int() + 1)
		case reflect.Map:
			m.Labels["a"] = "x"
		case reflect.Pointer:
			m.Pod = fullPod(t)
		default:
			t.Fatalf("field %s: teach this test its kind", name)
		}
		h := specHash(m, "uid-1")
		require.Empty(t, seen[h], "a change of %s must change the hash", name)
		seen[h] = name
	}
	require.NotEqual(t, base, specHash(full(), "uid-2"), "equal passwords of two Proxies don't show as equal hashes")
}

func TestSpecHashOfAnUnknownVersion(t *testing.T) {
	_, ok := specHashIn("v2", full(), "uid-1")
	require.False(t, ok)
	w := Want{Owner: "uid-1", Material: full()}
	require.False(t, w.drifted(providers.Instance{Tags: providers.Tags{SpecHash: "v2:abc"}}))
	require.False(t, w.drifted(providers.Instance{}))
	require.True(t, w.drifted(providers.Instance{Tags: providers.Tags{SpecHash: "v1:abc"}}))
	require.False(t, w.drifted(providers.Instance{Tags: providers.Tags{SpecHash: w.hash()}}))
}

// TestAnotherDefaultOfTheAccountReplacesNothing: a new image of the operator's own, in the account or by --proxy-image, must not
// roll every fleet at an upgrade. It comes with the next machine.
func TestAnotherDefaultOfTheAccountReplacesNothing(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("a")
	before := recordedRef(w.ready("a"))
	want := func() Want {
		got, err := w.r.want(t.Context(), w.get("a"), false)
		require.NoError(t, err)
		return got
	}
	was := want()
	w.restart()
	acc := w.account("cloud")
	acc.Fingerprint = "f2"
	w.r.Providers["cloud"] = acc
	is := want()
	require.Equal(t, was.hash(), is.hash())
	require.NotEqual(t, was.Inputs, is.Inputs, "what was refused is tried again")
	for range 5 {
		_, err := w.tick("a")
		require.NoError(t, err)
	}
	require.Equal(t, before, recordedRef(w.get("a")))
	require.Zero(t, w.count(cloud.OpDelete))

	w.annotate("a", v1alpha1.AnnotationReplaceRequestedAt, w.clock.Now().UTC().Format(time.RFC3339))
	w.until("a", func() bool { return isReady(w.get("a")) && recordedRef(w.get("a")) != before })
}
