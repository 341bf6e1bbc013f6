// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: 1, Reason: reason, Message: "a sentence",
		LastTransitionTime: metav1.NewTime(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
}

// fullStatus has every field set.
func fullStatus() v1alpha1.ProxyStatus {
	return v1alpha1.ProxyStatus{
		ObservedGeneration: 1,
		Phase:              v1alpha1.PhaseReady,
		ProviderID:         "gcp-eu://project/europe-west1-b/px-abc",
		IP:                 "192.0.2.10",
		Port:               3128,
		ExitIP:             "203.0.113.7",
		Zone:               "europe-west1-b",
		Instance:           &v1alpha1.Instance{Incarnation: 7, Name: "px-abc", SpecHash: "1:0123456789abcdef"},
		LastFailure:        &v1alpha1.Failure{Class: "QuotaExceeded", Inputs: "0123456789abcdef"},
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonCreated),
			condition(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy),
			condition(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, v1alpha1.ReasonCreated),
		},
	}
}

// requireNoZero requires that nothing in v is left out, so that a field that is added is added to the test as well.
func requireNoZero(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	require.False(t, v.IsZero(), "%s is not set", path)
	switch v.Kind() { //nolint:exhaustive // the kinds that hold others
	case reflect.Pointer:
		requireNoZero(t, v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			requireNoZero(t, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			return
		}
		for i := range v.NumField() {
			requireNoZero(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	}
}

func managed(t *testing.T, ns, name string) *v1alpha1.Proxy {
	t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: v1alpha1.ProxySpec{Provider: "local"}}
	require.NoError(t, api.typed.Create(t.Context(), p))
	return p
}

func TestEveryFieldOfStatusIsKept(t *testing.T) {
	want := fullStatus()
	requireNoZero(t, reflect.ValueOf(want), "status")
	p := managed(t, namespace(t), "proxy")
	p.Status = fullStatus()
	require.NoError(t, api.typed.Status().Update(t.Context(), p))

	got := &v1alpha1.Proxy{}
	require.NoError(t, api.typed.Get(t.Context(), client.ObjectKeyFromObject(p), got))
	for i := range got.Status.Conditions { // the same time in another location
		got.Status.Conditions[i].LastTransitionTime = metav1.NewTime(got.Status.Conditions[i].LastTransitionTime.UTC())
	}
	require.Equal(t, want, got.Status)
}

func TestSpecAndStatusAreWrittenApart(t *testing.T) {
	ns := namespace(t)
	t.Run("a create drops the status", func(t *testing.T) {
		p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "created"}}
		p.Spec.Provider = "local"
		p.Status = fullStatus()
		require.NoError(t, api.typed.Create(t.Context(), p))
		require.NotContains(t, read(t, ns, "created"), "status")
	})
	t.Run("a write of the object leaves the status", func(t *testing.T) {
		p := managed(t, ns, "object")
		p.Status = fullStatus()
		require.NoError(t, api.typed.Status().Update(t.Context(), p))
		before := read(t, ns, "object")
		p.Spec.Provider, p.Status = "gcp-eu", v1alpha1.ProxyStatus{Phase: v1alpha1.PhaseFailed}
		require.NoError(t, api.typed.Update(t.Context(), p))
		after := read(t, ns, "object")
		require.Equal(t, before["status"], after["status"])
		require.Equal(t, "gcp-eu", after["spec"].(map[string]any)["provider"])
		require.EqualValues(t, 2, p.Generation, "a new spec is a new generation")
	})
	t.Run("a write of the status leaves spec, annotations and finalizers", func(t *testing.T) {
		p := managed(t, ns, "status")
		before := read(t, ns, "status")
		p.Spec.Provider, p.Status.Phase = "gcp-eu", v1alpha1.PhaseReady
		p.Annotations, p.Finalizers = map[string]string{v1alpha1.AnnotationPaused: "true"}, []string{v1alpha1.Finalizer}
		require.NoError(t, api.typed.Status().Update(t.Context(), p))
		after := read(t, ns, "status")
		require.Equal(t, before["spec"], after["spec"])
		require.Equal(t, map[string]any{"phase": "Ready"}, after["status"])
		meta := after["metadata"].(map[string]any)
		require.NotContains(t, meta, "annotations")
		require.NotContains(t, meta, "finalizers")
		require.EqualValues(t, 1, meta["generation"], "a new status is no new generation")
	})
	t.Run("an annotation is no new generation", func(t *testing.T) {
		p := managed(t, ns, "annotated")
		p.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		require.NoError(t, api.typed.Update(t.Context(), p))
		require.EqualValues(t, 1, p.Generation)
	})
	t.Run("a status that says the same is no write", func(t *testing.T) {
		p := managed(t, ns, "same")
		p.Status = fullStatus()
		require.NoError(t, api.typed.Status().Update(t.Context(), p))
		before := p.ResourceVersion
		p.Status = fullStatus()
		require.NoError(t, api.typed.Status().Update(t.Context(), p))
		require.Equal(t, before, p.ResourceVersion)
	})
}

// Two writers each own the condition that they apply: the list is a map by type.
func TestConditionsAreAMapByType(t *testing.T) {
	ns := namespace(t)
	managed(t, ns, "proxy")
	apply := func(owner string, c metav1.Condition) error {
		body, err := json.Marshal(map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Proxy", "metadata": map[string]any{"name": "proxy"},
			"status": map[string]any{"conditions": []metav1.Condition{c}},
		})
		require.NoError(t, err)
		return api.raw.Patch(types.ApplyPatchType).Namespace(ns).Resource("proxies").Name("proxy").SubResource("status").
			Param("fieldManager", owner).Param("fieldValidation", "Strict").Body(body).Do(t.Context()).Error()
	}
	require.NoError(t, apply("one", condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonCreated)))
	require.NoError(t, apply("two", condition(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, v1alpha1.ReasonCreated)))
	require.NoError(t, apply("one", condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplacing)))

	got := &v1alpha1.Proxy{}
	require.NoError(t, api.typed.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "proxy"}, got))
	require.Len(t, got.Status.Conditions, 2)
	require.Equal(t, v1alpha1.ReasonReplacing, got.Status.Conditions[0].Reason)
	require.Equal(t, v1alpha1.ReasonCreated, got.Status.Conditions[1].Reason)
	require.ErrorContains(t, apply("two", condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonCreated)),
		`conflicts with "one"`, "one writer can't take the other's condition unawares")
}

func TestStatusThatBreaksItsLimitsIsRefused(t *testing.T) {
	const good = `{type: Ready, status: "True", reason: Created, message: "", lastTransitionTime: "2027-01-02T03:04:05Z"}`
	cases := map[string]struct {
		status string
		want   string
	}{
		"a condition type twice":      {`{conditions: [` + good + `, ` + good + `]}`, `status.conditions[1]: Duplicate value: {"type":"Ready"}`},
		"a condition without reason":  {`{conditions: [{type: Ready, status: "True", message: "", lastTransitionTime: "2027-01-02T03:04:05Z"}]}`, "status.conditions[0].reason: Required value"},
		"a reason with a space":       {`{conditions: [{type: Ready, status: "True", reason: a b, message: "", lastTransitionTime: "2027-01-02T03:04:05Z"}]}`, "status.conditions[0].reason: Invalid value"},
		"a field that isn't there":    {`{healthy: true}`, `unknown field "status.healthy"`},
		"a phase over its limit":      {`{phase: 123456789012345678901234567890123}`, "status.phase"},
		"an empty phase":              {`{phase: ""}`, `status.phase: Invalid value: ""`},
		"generation 0":                {`{observedGeneration: 0}`, "status.observedGeneration: Invalid value: 0"},
		"port 65536":                  {`{port: 65536}`, "status.port: Invalid value: 65536"},
		"an empty address":            {`{ip: ""}`, `status.ip: Invalid value: ""`},
		"a port that is a string":     {`{port: "3128"}`, "status.port: Invalid value"},
		"an instance that's a string": {`{instance: px-abc}`, "status.instance: Invalid value"},
	}
	ns := namespace(t)
	managed(t, ns, "proxy")
	before := read(t, ns, "proxy")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			obj := read(t, ns, "proxy")
			obj["status"] = parse(t, c.status)
			requireRefusal(t, replace(t.Context(), ns, obj, "status"), []string{c.want}, name)
			require.Equal(t, before, read(t, ns, "proxy"))
		})
	}
}
