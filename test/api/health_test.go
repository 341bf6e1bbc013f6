// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// TestDurationsAreTakenAsGoWritesThem: what is taken is what the operator reads. The bounds of each field are in the manifests.
func TestDurationsAreTakenAsGoWritesThem(t *testing.T) {
	cases := map[string]struct {
		why   string
		value string
		want  string // empty: it is taken
	}{
		"hours":                          {"the usual way", "2h", ""},
		"minutes":                        {"it isn't rewritten", "120m", ""},
		"seconds":                        {"it isn't rewritten", "7200s", ""},
		"milliseconds with others":       {"Go prints such ones", "2h0m0s500ms", ""},
		"two units":                      {"kubectl users write so", "1h30m", ""},
		"a fraction":                     {"Go reads it", "1.5h", ""},
		"a fraction with three digits":   {"the smallest step is a millisecond", "1000.125s", ""},
		"the longest that is written":    {"a limit is the last value that is good", "8759h59m59s1000ms", ""},
		"more hours than time can count": {"an overflow must not be an error of the rule", "999999h999999h999999h999999h", "must be a duration from 10m to 8760h"},
		"days":                           {"Go has none", "7d", "must be a duration from 10m to 8760h"},
		"weeks":                          {"Go has none", "1w", "must be a duration from 10m to 8760h"},
		"a number in quotes":             {"it has no unit", "7200", "must be a duration from 10m to 8760h"},
		"nothing":                        {"leave it out", "", "must be a duration from 10m to 8760h"},
		"zero":                           {"leave it out for ever", "0", "must be a duration from 10m to 8760h"},
		"zero seconds":                   {"leave it out for ever", "0s", "must be a duration from 10m to 8760h"},
		"below zero":                     {"no machine is so young", "-1h", "must be a duration from 10m to 8760h"},
		"a plus sign":                    {"Go reads it, and nobody writes it", "+1h", "must be a duration from 10m to 8760h"},
		"a space":                        {"Go doesn't read it", "1 h", "must be a duration from 10m to 8760h"},
		"a space at the end":             {"Go doesn't read it", "1h ", "must be a duration from 10m to 8760h"},
		"a line break at the end":        {"Go doesn't read it", `1h\n`, "must be a duration from 10m to 8760h"},
		"upper case":                     {"Go doesn't read it", "1H", "must be a duration from 10m to 8760h"},
		"microseconds":                   {"finer than anybody means", "1h1us", "must be a duration from 10m to 8760h"},
		"five units":                     {"longer than anybody writes", "1h1m1s1ms1ms", "must be a duration from 10m to 8760h"},
		"ISO 8601":                       {"Go doesn't read it", "PT1H", "must be a duration from 10m to 8760h"},
		"a dot alone":                    {"it is no number", ".h", "must be a duration from 10m to 8760h"},
		"a dot at the end":               {"Go reads it, and nobody writes it", "1.h", "must be a duration from 10m to 8760h"},
		"33 characters":                  {"the schema says so before the rule", "000000000000000000000000000000001h", "Too long: may not be more than 32 bytes"},
	}
	ns := namespace(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := create(t.Context(), ns, manifestOf("proxy", fmt.Sprintf(`{provider: local, maxAge: "%s"}`, c.value)))
			if c.want != "" {
				requireRefusal(t, err, []string{"spec.maxAge: ", c.want}, c.why)
				return
			}
			require.NoError(t, err, c.why)
			kept := read(t, ns, "proxy")["spec"].(map[string]any)["maxAge"]
			require.Equal(t, c.value, kept, "it is kept as it was written")
			p := &v1alpha1.Proxy{}
			require.NoError(t, api.typed.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "proxy"}, p), "the Go types read it")
			require.Positive(t, p.Spec.MaxAge.Duration)
			require.NoError(t, api.typed.Delete(t.Context(), p))
		})
	}
}
