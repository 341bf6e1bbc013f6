// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// Everything that the manager says is JSON, also what libraries say: of leader election, of the metrics server about a
// client that doesn't speak TLS, of watches.
func TestEveryLineOfTheLogIsJSON(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	m := f.start("--leader-elect", "--log-level=debug")
	l := login{"crawler", "logged-password-5Fa"}
	f.credentials("login", l)
	f.create("logged", authFrom("login"))
	old := f.ready("logged")
	f.edit("logged", func(p *v1alpha1.Proxy) { port(3180)(&p.Spec) })
	f.replaced(old)
	f.create("unknown", func(s *v1alpha1.ProxySpec) { s.Provider = "elsewhere" })
	f.await("unknown", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonPermanentError)
	})
	for url, token := range map[string]string{"http://": "", "https://": "made-up"} {
		status, _ := get(t.Context(), url+m.metrics+"/metrics", token)
		require.NotEqual(t, http.StatusOK, status, url)
	}
	second := f.start("--leader-elect")
	require.NotEmpty(t, second.Output())
	m.interrupt()
	for _, m := range f.managers {
		parsed, other := m.lines()
		require.Empty(t, other, "lines that are no JSON")
		require.NotEmpty(t, parsed)
		for _, line := range parsed {
			require.Contains(t, line, "level")
			require.Contains(t, line, "msg")
		}
	}
}

func TestLogsForPeopleOnRequest(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	m := f.start("--log-format=console")
	f.create("logged")
	f.ready("logged")
	parsed, other := m.lines()
	require.Empty(t, parsed)
	require.NotEmpty(t, other)
	require.Contains(t, strings.Join(other, ""), "asked for an instance")
}

// What Secrets hold goes to the instances' own files and nowhere else, also where something is wrong with it. What is
// looked at is listed at requireSecretsKept.
func TestSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start("--log-level=debug")
	f.credentials("good-login", login{"crawler", "sensitive-password-6Gb"})
	f.secret("bad-login", corev1.SecretTypeOpaque, map[string]string{"username": "with:colon", "password": "sensitive-password-7Hc"})
	f.secret("two-lines", corev1.SecretTypeOpaque, map[string]string{"username": "u", "password": "sensitive-password-8Id\nsecond-line-of-it"})
	f.userData("boot", "#cloud-config\n# sensitive-user-data-9Je")
	f.secret("too-long", corev1.SecretTypeOpaque, map[string]string{"user-data": "# sensitive-user-data-0Kf" + strings.Repeat("x", 65536)})
	f.create("good", authFrom("good-login"), cloudInitFrom("boot"))
	f.create("bad", authFrom("bad-login"))
	f.create("long", cloudInitFrom("too-long"))
	f.create("two-lines", authFrom("two-lines"))
	f.ready("good")
	for name, reason := range map[string]string{
		"bad": v1alpha1.ReasonAuthError, "two-lines": v1alpha1.ReasonAuthError, "long": v1alpha1.ReasonCloudInitError,
	} {
		f.await(name, func(c *assert.CollectT, p *v1alpha1.Proxy) {
			requireCondition(c, p, v1alpha1.ConditionStalled, "True", reason)
		})
	}
	f.sensitive = append(f.sensitive, "sensitive-password-8Id", "second-line-of-it", "sensitive-user-data-0Kf", "with:colon")
	f.credentials("good-login", login{"crawler", "sensitive-password-1Lg"})
	old := f.read("good")
	f.replaced(old)
	f.requireSecretsKept(t.Context())
}
