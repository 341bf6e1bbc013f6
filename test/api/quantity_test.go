// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// One Proxy that can't be decoded keeps every list and watch from being read, in all namespaces. So whatever the API server
// takes must decode, here and as the amounts of a pod.
func TestEveryQuantityThatIsTakenDecodes(t *testing.T) {
	taken := map[string]bool{ // what is not here may be either
		`0`: true, `2`: true, `9223372036854775807`: true, `"500m"`: true, `"0.5"`: true, `"0.000000001"`: true, `"256Mi"`: true,
		`"1e3"`: true, `"1E3"`: true, `"1E"`: true, `"1e99"`: true, `"128e6"`: true, `"9999999999999999999Ei"`: true,
		`"9999999999999999999.999999999Ki"`: true, `"007"`: true,
		`-1`: false, `9223372036854775808`: false, `1e400`: false, `0.5`: false, `true`: false, `[]`: false, `{}`: false, `""`: false,
	}
	values := []string{`1e3`, `1.0`, `1e30`, `-0`, `null`}
	for v := range taken {
		values = append(values, v)
	}
	for _, number := range []string{"", "1", "1.", ".5", "1.5", "+1", "-1", "1_0", "0x1", "12345678901234567890", "1.1234567890", "NaN", "Inf"} {
		for _, unit := range []string{"", "n", "u", "k", "K", "Ki", "ki", "i", "E", "e", "e0", "e+1", "e-1", "e1.5", "e1.", "E+.5", "E.", "e100", "e2147483648", "e99999999999999999999", " ", "\\n", "\\u0000", "Mib"} {
			values = append(values, `"`+number+unit+`"`)
		}
	}
	ns := namespace(t)
	for n, v := range values {
		name := fmt.Sprintf("proxy-%d", n)
		spec := fmt.Sprintf(`{"provider": "kubernetes", "kubernetes": {"resources": {"requests": {"memory": %s}, "limits": {"cpu": %s}}}}`, v, v)
		err := create(t.Context(), ns, manifestOf(name, spec))
		if want, said := taken[v]; said {
			require.Equal(t, want, err == nil, "%s: %v", v, err)
		}
		if err != nil {
			continue
		}
		p := &v1alpha1.Proxy{}
		require.NoError(t, api.typed.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, p), "%s is taken", v)
		raw, err := json.Marshal(p.Spec.Kubernetes.Resources)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &corev1.ResourceRequirements{}), "%s is taken: %s", v, raw)
	}
	var all v1alpha1.ProxyList
	require.NoError(t, api.typed.List(t.Context(), &all, client.InNamespace(ns)))
	require.Greater(t, len(all.Items), 15)
}
