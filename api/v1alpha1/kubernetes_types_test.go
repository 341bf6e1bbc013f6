// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Proxy that was stored under another schema must not keep a list from being read either.
func TestAQuantityReadsAnything(t *testing.T) {
	cases := map[string]struct{ why, raw, want string }{
		"as it is written":  {"the form of Kubernetes", `"256Mi"`, `"256Mi"`},
		"in another form":   {"one amount has one hash", `"1000m"`, `"1"`},
		"a number":          {"as in a pod", `2`, `"2"`},
		"no amount":         {"a list with it must be read", `"1e1.5"`, `"1e1.5"`},
		"a bad exponent":    {"the same", `"1e99999999999999999999"`, `"1e99999999999999999999"`},
		"no text either":    {"the same", `{"a": [1]}`, `"{\"a\": [1]}"`},
		"an unquoted float": {"the same", `1e400`, `"10e399"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var q Quantity
			require.NoError(t, json.Unmarshal([]byte(c.raw), &q), c.why)
			got, err := json.Marshal(q)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got), c.why)
		})
	}
}
