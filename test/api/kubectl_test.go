// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// table asks for Proxies as kubectl get does.
func table(t *testing.T, ns string) metav1.Table {
	t.Helper()
	body, err := api.raw.Get().Namespace(ns).Resource("proxies").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	require.NoError(t, err)
	var got metav1.Table
	require.NoError(t, json.Unmarshal(body, &got))
	require.Equal(t, "Table", got.Kind)
	return got
}

func TestColumnsThatKubectlPrints(t *testing.T) {
	ns := namespace(t)
	made := managed(t, ns, "a-made")
	made.Status = fullStatus()
	require.NoError(t, api.typed.Status().Update(t.Context(), made))
	managed(t, ns, "b-new")
	require.NoError(t, create(t.Context(), ns, manifestOf("c-external", `{mode: External, endpoint: {host: "2001:db8::10", port: 8080}}`)))

	got := table(t, ns)
	type column struct {
		name     string
		priority int32 // above 0: with -o wide only
	}
	columns := make([]column, 0, len(got.ColumnDefinitions))
	for _, c := range got.ColumnDefinitions {
		columns = append(columns, column{c.Name, c.Priority})
	}
	require.Equal(t, []column{
		{"Name", 0}, {"Mode", 0}, {"Provider", 0}, {"Phase", 0}, {"IP", 0}, {"Port", 0}, {"Healthy", 0}, {"Ready", 0}, {"Age", 0},
		{"Reason", 1}, {"ExitIP", 1}, {"Stalled", 1}, {"ProviderID", 1},
	}, columns)

	const age = 8
	rows := make([][]any, 0, len(got.Rows))
	for _, r := range got.Rows {
		require.Regexp(t, `^\d+s$|^<invalid>$`, r.Cells[age])
		rows = append(rows, append(r.Cells[:age:age], r.Cells[age+1:]...))
	}
	require.Equal(t, [][]any{
		{"a-made", "Managed", "local", "Ready", "192.0.2.10", float64(3128), "True", "True", "Created", "203.0.113.7", nil, "gcp-eu://project/europe-west1-b/px-abc"},
		{"b-new", "Managed", "local", nil, nil, nil, nil, nil, nil, nil, nil, nil},
		{"c-external", "External", nil, nil, nil, nil, nil, nil, nil, nil, nil, nil},
	}, rows)
}

func TestNamesThatKubectlTakes(t *testing.T) {
	d, err := discovery.NewDiscoveryClientForConfig(api.config)
	require.NoError(t, err)
	found, err := d.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	require.NoError(t, err)
	byName := map[string]metav1.APIResource{}
	for _, r := range found.APIResources {
		byName[r.Name] = r
	}
	require.Len(t, byName, 2)
	proxies := byName["proxies"]
	require.Equal(t, "Proxy", proxies.Kind)
	require.Equal(t, "proxy", proxies.SingularName)
	require.True(t, proxies.Namespaced)
	require.Equal(t, []string{"px"}, proxies.ShortNames)
	require.Equal(t, []string{"all", "crawl"}, proxies.Categories)
	require.ElementsMatch(t, []string{"get", "patch", "update"}, byName["proxies/status"].Verbs)
}
