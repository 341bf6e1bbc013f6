// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

func TestUserDataIsLimitedInBytes(t *testing.T) {
	cases := map[string]struct {
		why  string
		data string
		want string // empty: it is taken
	}{
		"65536 bytes are taken": {
			why:  "a limit is the last value that is good",
			data: strings.Repeat("a", 65536),
		},
		"65537 bytes are refused by the schema": {
			why:  "the API server counts characters, which are bytes here",
			data: strings.Repeat("a", 65537),
			want: "spec.cloudInit.inline: Too long: may not be more than 65536 bytes",
		},
		"32768 characters of two bytes are taken": {
			why:  "they are 65536 bytes",
			data: strings.Repeat("ü", 32768),
		},
		"32769 characters of two bytes are refused by a rule": {
			why:  "clouds count bytes",
			data: strings.Repeat("ü", 32769),
			want: "spec.cloudInit.inline: Invalid value: must be at most 65536 bytes in UTF-8; shorten it",
		},
		"65536 characters of four bytes are refused by a rule": {
			why:  "the longest text that the schema lets through must not cost the rule too much",
			data: strings.Repeat("🦊", 65536),
			want: "spec.cloudInit.inline: Invalid value: must be at most 65536 bytes in UTF-8; shorten it",
		},
		"65537 characters of four bytes are refused by the schema": {
			why:  "262148 bytes",
			data: strings.Repeat("🦊", 65537),
			want: "spec.cloudInit.inline: Too long",
		},
		"1 MiB is refused": {
			why:  "far above the limit the message is the same",
			data: strings.Repeat("a", 1<<20),
			want: "spec.cloudInit.inline: Too long: may not be more than 65536 bytes",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			err := create(t.Context(), ns, manifestOf("proxy", fmt.Sprintf(`{provider: local, cloudInit: {inline: "%s"}}`, c.data)))
			if c.want != "" {
				requireRefusal(t, err, []string{c.want}, c.why)
				require.Less(t, len(err.Error()), 1000, "the refusal doesn't repeat the user data")
				return
			}
			require.NoError(t, err, c.why)
			p := &v1alpha1.Proxy{}
			require.NoError(t, api.typed.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "proxy"}, p))
			require.Equal(t, c.data, p.Spec.CloudInit.Inline)
		})
	}
}

// User data may hold tokens, and a host that somebody pasted may hold a password. Refusals end up in logs of CI.
func TestRefusalsDoNotRepeatWhatMayBeSecret(t *testing.T) {
	const secret = "hunter2"
	cases := map[string]string{
		"user data beside a secretRef":   `{provider: local, cloudInit: {inline: "` + secret + `", secretRef: {name: a}}}`,
		"user data of mode External":     `{mode: External, endpoint: {host: a, port: 1}, cloudInit: {inline: "` + secret + `"}}`,
		"user data beside another fault": `{provider: local, port: 0, cloudInit: {inline: "` + secret + `"}}`,
		"user data over the limit":       `{provider: local, cloudInit: {inline: "` + secret + strings.Repeat("ü", 40000) + `"}}`,
		"user data far over the limit":   `{provider: local, cloudInit: {inline: "` + secret + strings.Repeat("a", 70000) + `"}}`,
		"a URL as host":                  `{mode: External, endpoint: {host: "http://user:` + secret + `@proxy.example.com:3128/", port: 1}}`,
		"user and password in a host":    `{mode: External, endpoint: {host: "user:` + secret + `@proxy.example.com", port: 1}}`,
		"a password with spaces":         `{mode: External, endpoint: {host: "user ` + secret + `", port: 1}}`,
		"a host over its limit":          `{mode: External, endpoint: {host: "` + secret + strings.Repeat("a", 250) + `", port: 1}}`,
		"a target with a password":       `{provider: local, healthCheck: {targets: [{url: "https://user:` + secret + `@example.com/"}]}}`,
		"such a target twice":            `{provider: local, healthCheck: {targets: [{url: "https://u:` + secret + `@a/"}, {url: "https://u:` + secret + `@a/"}]}}`,
		"a target with too bad a port":   `{provider: local, healthCheck: {targets: [{url: "https://user:` + secret + `@example.com:99999/"}]}}`,
		"a target without a scheme":      `{provider: local, healthCheck: {targets: [{url: "user:` + secret + `@example.com"}]}}`,
		"a target over its limit":        `{provider: local, healthCheck: {targets: [{url: "https://u:` + secret + `@a/` + strings.Repeat("a", 2048) + `"}]}}`,
		"a target that is a string":      `{provider: local, healthCheck: {targets: ["https://user:` + secret + `@example.com/"]}}`,
		"targets that are a string":      `{provider: local, healthCheck: {targets: "https://user:` + secret + `@example.com/"}}`,
		"a target of mode External":      `{mode: External, endpoint: {host: a, port: 1}, maxAge: 1h, healthCheck: {targets: [{url: "https://u:` + secret + `@a/"}]}}`,
		"a target beside another fault":  `{provider: local, port: 0, healthCheck: {quorum: 3, targets: [{url: "https://user:` + secret + `@example.com/"}]}}`,
		"a field that isn't there":       `{provider: local, auth: {secretRef: {name: a}, password: "` + secret + `"}}`,
	}
	ns := namespace(t)
	for name, spec := range cases {
		t.Run(name, func(t *testing.T) {
			err := create(t.Context(), ns, manifestOf("proxy", spec))
			requireRefusal(t, err, []string{"spec."}, name)
			require.NotContains(t, err.Error(), secret)
		})
	}
}
