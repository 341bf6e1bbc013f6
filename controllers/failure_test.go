// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestRemedyForEveryClass(t *testing.T) {
	for _, class := range append(providers.Classes(), "of a newer provider") {
		t.Run(string(class), func(t *testing.T) {
			m := remedyFor(class)
			require.NotEmpty(t, m.reason)
			require.NotEmpty(t, m.message)
			require.LessOrEqual(t, m.after, permanentRetry, "nothing waits for ever")
			require.Equal(t, m.latch, class == providers.Permanent, "only Permanent is remembered")
			require.Equal(t, m.stalled, class == providers.Permanent || class == providers.Denied, "only these need somebody")
		})
	}
	require.Zero(t, remedyFor(providers.Transient).after, "the error goes to the queue")
	require.Equal(t, v1alpha1.ReasonQuotaExceeded, remedyFor(providers.QuotaExceeded).reason)
}

func TestMessagesHoldFieldCodeAndNoVendorWords(t *testing.T) {
	quota := remedyFor(providers.QuotaExceeded).text("gcp-eu", &providers.Error{Code: "CPUS", Err: errCrash})
	require.Equal(t, `Account "gcp-eu" (CPUS) is full; raise its quota or remove machines. The operator tries again every 5 minutes.`, quota)
	field := remedyFor(providers.Permanent).text("local", &providers.Error{Field: "spec.protocol", Want: "write HTTP"})
	require.Equal(t, `spec.protocol: account "local" can't act on it; write HTTP.`, field)
	advice := remedyFor(providers.Denied).text("pods", &providers.Error{Code: "Forbidden", Advice: "namespace two refuses; mend it.", Err: errCrash})
	require.Equal(t, `Account "pods" (Forbidden): namespace two refuses; mend it.`, advice)
}

func TestSanitize(t *testing.T) {
	cases := map[string]struct {
		why     string
		text    string
		secrets []string
		want    string
	}{
		"plain text stays":            {"", "quota CPUS exceeded", nil, "quota CPUS exceeded"},
		"lines become one":            {"logs are lines", "a\nb\tc\x00", nil, "a b c "},
		"a secret is hidden":          {"vendors quote requests", "bad password hunter2", []string{"hunter2"}, "bad password [hidden]"},
		"each line of it is":          {"vendors quote parts", "line 2: token: abcd is bad", []string{"#cloud-config\ntoken: abcd"}, "line 2: [hidden] is bad"},
		"what is too short to be one": {"every a would be hidden", "a bad zone", []string{"a"}, "a bad zone"},
		"no secret":                   {"nothing to hide", "bad", []string{""}, "bad"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, sanitize(c.text, c.secrets...), c.why)
		})
	}
	long := sanitize(strings.Repeat("ä", 1000))
	require.LessOrEqual(t, len(long), 410)
	require.True(t, utf8.ValidString(long))
}
