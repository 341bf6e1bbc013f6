// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// manifest is a file of manifests/good or manifests/bad.
type manifest struct {
	text string
	why  string
	want []string // what the refusal must say
}

// manifests reads a folder; the keys are the files' names as sentences.
func manifests(t *testing.T, folder string) map[string]manifest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("manifests", folder, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]manifest{}
	for _, file := range files {
		require.Equal(t, ".yaml", filepath.Ext(file), file)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		m := manifest{text: string(text)}
		for line := range strings.Lines(m.text) {
			if want, ok := strings.CutPrefix(line, "# want: "); ok {
				m.want = append(m.want, strings.TrimSpace(want))
			}
			if why, ok := strings.CutPrefix(line, "# why: "); ok {
				m.why = strings.TrimSpace(why)
			}
		}
		require.NotEmpty(t, m.why, "%s has no line # why:", file)
		all[strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".yaml"), "-", " ")] = m
	}
	return all
}

func TestGoodManifestsAreTakenAndLoseNothing(t *testing.T) {
	ns := namespace(t)
	for name, m := range manifests(t, "good") {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, m.want, "a good manifest is not refused")
			var sent map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(m.text), &sent))
			require.NoError(t, create(t.Context(), ns, m.text), m.why)

			got := read(t, ns, sent["metadata"].(map[string]any)["name"].(string))
			require.Equal(t, withDefaults(sent["spec"].(map[string]any)), got["spec"], "what was sent is what is kept")
			require.NotContains(t, got, "status")

			typed := decode(t, got)
			require.Equal(t, got["spec"], encode(t, typed)["spec"], "the Go types keep every field")
			require.NoError(t, api.typed.Delete(t.Context(), typed))
			err := api.typed.Get(t.Context(), client.ObjectKeyFromObject(typed), typed)
			require.True(t, apierrors.IsNotFound(err), "deleted: %v", err)
		})
	}
}

// withDefaults fills in the only two defaults that there are, and leaves out nulls, as the API server does.
func withDefaults(spec map[string]any) map[string]any {
	maps.DeleteFunc(spec, func(_ string, v any) bool { return v == nil })
	if spec["mode"] == nil {
		spec["mode"] = "Managed"
	}
	if c, ok := spec["cloudInit"].(map[string]any); ok {
		if ref, ok := c["secretRef"].(map[string]any); ok && ref["key"] == nil {
			ref["key"] = "user-data"
		}
	}
	return spec
}

// decode reads an object into the Go types and fails on a field that they don't have.
func decode(t *testing.T, obj map[string]any) *v1alpha1.Proxy {
	t.Helper()
	body, err := json.Marshal(obj)
	require.NoError(t, err)
	p := &v1alpha1.Proxy{}
	strict, err := kjson.UnmarshalStrict(body, p)
	require.NoError(t, err)
	require.Empty(t, strict)
	return p
}

func encode(t *testing.T, p *v1alpha1.Proxy) map[string]any {
	t.Helper()
	body, err := json.Marshal(p)
	require.NoError(t, err)
	obj := map[string]any{}
	require.NoError(t, json.Unmarshal(body, &obj))
	return obj
}

func TestBadManifestsAreRefusedWithTheFieldAndWhatToWrite(t *testing.T) {
	ns := namespace(t)
	for name, m := range manifests(t, "bad") {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, m.want, "a bad manifest says what it wants: # want: ...")
			err := create(t.Context(), ns, m.text)
			if err == nil { // it must not stand in the way of the next one
				require.NoError(t, api.typed.DeleteAllOf(t.Context(), &v1alpha1.Proxy{}, client.InNamespace(ns)))
			}
			requireRefusal(t, err, m.want, m.why)
		})
	}
	var list v1alpha1.ProxyList
	require.NoError(t, api.typed.List(t.Context(), &list, client.InNamespace(ns)))
	require.Empty(t, list.Items, "what is refused is not kept")
}

var namesAField = regexp.MustCompile(`\b(spec|metadata|status)\b`)

// requireRefusal requires that the API server refused an object for what is in it, with all of these texts, and that
// each of its complaints is about a field.
func requireRefusal(t *testing.T, err error, want []string, why string) {
	t.Helper()
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status, why)
	for _, text := range want {
		require.Contains(t, err.Error(), text, why)
	}
	switch reason := status.Status().Reason; reason {
	case metav1.StatusReasonInvalid:
		for _, cause := range status.Status().Details.Causes {
			if strings.Contains(cause.Message, "some validation rules were not checked") {
				continue // the API server's own hint, about no field
			}
			require.Regexp(t, namesAField, cause.Field+" "+cause.Message)
			require.NotContains(t, cause.Message, "failed rule", "a rule without a message")
			require.NotContains(t, cause.Message, "cost", "a rule that costs too much")
		}
	case metav1.StatusReasonBadRequest:
		require.Contains(t, err.Error(), "strict decoding error")
	default:
		require.Fail(t, "refused for another reason", "%s: %v", reason, err)
	}
	t.Log(err) // for who reads how the refusals sound: go test -v
}
