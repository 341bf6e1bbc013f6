// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const crdFile = "../../config/crd/bases/crawl.proxy-operator.io_proxies.yaml"

// walk calls visit for every schema below properties, with the path of its field.
func walk(schema map[string]any, path string, visit func(path string, schema map[string]any)) {
	visit(path, schema)
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, child := range properties {
			walk(child.(map[string]any), strings.TrimPrefix(path+"."+name, "."), visit)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		walk(items, path+"[]", visit)
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		walk(values, path+"{}", visit)
	}
}

// fields returns the schemas of everything in spec and status by path.
func fields(t *testing.T) map[string]map[string]any {
	t.Helper()
	raw, err := os.ReadFile(crdFile)
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema map[string]any
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &crd))
	require.Len(t, crd.Spec.Versions, 1)
	found := map[string]map[string]any{}
	walk(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "", func(path string, schema map[string]any) {
		if strings.HasPrefix(path, "spec") || strings.HasPrefix(path, "status") {
			found[path] = schema
		}
	})
	require.Greater(t, len(found), 30)
	return found
}

// Without limits the API server can't bound what a CEL rule costs, and OLM's upgrade check refuses a limit that comes later.
func TestEveryFieldHasItsLimits(t *testing.T) {
	for path, s := range fields(t) {
		status := strings.HasPrefix(path, "status")
		switch {
		case s["type"] == "string", s["x-kubernetes-int-or-string"] != nil:
			require.True(t, s["maxLength"] != nil || s["enum"] != nil || s["format"] != nil, "%s has no maxLength, enum or format", path)
		case s["type"] == "array" && !status:
			require.Contains(t, s, "maxItems", path)
			require.Contains(t, s, "x-kubernetes-list-type", path)
		case s["type"] == "integer" && !status:
			require.Contains(t, s, "minimum", path)
			require.Contains(t, s, "maximum", path)
		case s["additionalProperties"] != nil:
			require.Contains(t, s, "maxProperties", path)
		}
		require.NotContains(t, s, "x-kubernetes-preserve-unknown-fields", "%s would take anything", path)
	}
}

// OLM's upgrade check refuses a default that comes, changes or goes.
func TestDefaultsAreTheseTwoForEver(t *testing.T) {
	defaults := map[string]any{}
	for path, s := range fields(t) {
		if value, ok := s["default"]; ok {
			defaults[path] = value
		}
	}
	require.Equal(t, map[string]any{"spec.mode": string(ModeManaged), "spec.cloudInit.secretRef.key": "user-data"}, defaults)
}

// The API server's own text for a pattern is a regular expression, and for a rule without a message the rule.
func TestEveryRuleSaysWhatToWrite(t *testing.T) {
	for path, s := range fields(t) {
		if !strings.HasPrefix(path, "status.conditions[]") { // the patterns of metav1.Condition, which no user writes
			require.NotContains(t, s, "pattern", "%s: write a rule with a message instead", path)
		}
		rules, _ := s["x-kubernetes-validations"].([]any)
		for _, r := range rules {
			require.NotEmpty(t, r.(map[string]any)["message"], "a rule of %s", path)
		}
		if s["type"] == "string" && len(rules) > 0 {
			require.LessOrEqual(t, s["maxLength"], float64(253), "a refusal by a rule at a string repeats it: %s", path)
		}
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	for path, s := range fields(t) {
		require.NotEmpty(t, s["description"], path)
	}
}

// kubectl apply keeps the whole object in an annotation, and annotations end at 256 KiB (cloudnative-pg/cloudnative-pg#4313).
func TestTheCRDFitsIntoAnAnnotation(t *testing.T) {
	raw, err := os.ReadFile(crdFile)
	require.NoError(t, err)
	asJSON, err := yaml.YAMLToJSON(raw)
	require.NoError(t, err)
	require.Less(t, max(len(raw), len(asJSON)), 128<<10, "half of the limit, so that there is room to grow")
	require.True(t, json.Valid(asJSON))
}
