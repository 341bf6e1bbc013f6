// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var alertMetric = regexp.MustCompile(`proxy_operator_[a-z_]+`)

func TestAlertsAndPanelsAskForMetricsThatThereAre(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	asked := map[string]bool{}
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		raw, err := os.ReadFile(filepath.Join(chartDir, "files", name))
		require.NoError(t, err)
		for _, m := range alertMetric.FindAllString(string(raw), -1) {
			asked[strings.TrimSuffix(m, "_bucket")] = true
		}
	}
	for _, m := range slices.Sorted(maps.Keys(asked)) {
		require.Regexp(t, "`"+m+"[{`]", string(page))
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	rule := ofKind(render(t, parse(t, "prometheusRule: {renderMode: always, alertLabels: {team: crawl}}")), "PrometheusRule")[0]
	groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
	require.NoError(t, err)
	rules := groups[0].(map[string]any)["rules"].([]any)
	require.Len(t, rules, 10)
	for _, r := range rules {
		rule := r.(map[string]any)
		alert := rule["alert"].(string)
		notes := rule["annotations"].(map[string]any)
		require.NotEmpty(t, notes["summary"])
		require.NotEmpty(t, notes["description"])
		require.Equal(t, "https://github.com/proxy-operator/proxy-operator/blob/main/docs/operations.md#"+strings.ToLower(alert), notes["runbook_url"])
		require.True(t, strings.Contains(string(page), "\n### "+alert+"\n"), alert)
		require.Contains(t, []any{"warning", "critical"}, rule["labels"].(map[string]any)["severity"])
		require.Equal(t, "crawl", rule["labels"].(map[string]any)["team"])
		require.NotContains(t, rule["expr"], "NAMESPACE")
	}
}

func TestTheDashboardIsJSON(t *testing.T) {
	all := render(t, valuesFiles(t)["everything-on"])
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(one[corev1.ConfigMap](t, all, "ConfigMap", fullName+"-dashboard").Data["proxy-operator.json"]), &board))
	require.NotEmpty(t, board.Panels)
	for _, p := range board.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
	}
}
