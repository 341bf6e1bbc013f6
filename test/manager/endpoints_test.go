// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

func TestProbes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	bindNothing(t, f)
	m := f.launch("--metrics-bind-address=0")
	m.lenient = true
	m.eventually(func(c *assert.CollectT) {
		require.False(c, m.Ended(), m.Output())
		status, body := get(t.Context(), "http://"+m.probes+"/healthz", "")
		require.Equal(c, http.StatusOK, status, body)
	})
	status, body := get(t.Context(), "http://"+m.probes+"/readyz", "")
	require.Equal(t, http.StatusInternalServerError, status, "it can't see Proxies: %s", body)
	grantProxies(t, f)
	m.awaitReady()
	require.False(t, m.Ended(), m.Output())
	status, _ = get(t.Context(), "http://"+m.probes+"/healthz", "")
	require.Equal(t, http.StatusOK, status)
	f.create("external", external("192.0.2.1", 3128, ""))
	f.await("external", func(c *assert.CollectT, p *v1alpha1.Proxy) { // nobody is there, but it was seen
		requireCondition(c, p, v1alpha1.ConditionProvisioned, "True", v1alpha1.ReasonExternalEndpoint)
	})
}

// It ends late and says so, but before the kubelet would kill it, 30 s after it was asked to.
func TestAManagerThatSeesNothingEndsWhenItIsAskedTo(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	bindNothing(t, f)
	m := f.launch()
	m.lenient, m.killed = true, true // the exit code is looked at below
	m.eventually(func(c *assert.CollectT) { require.Contains(c, m.Output(), "forbidden") })
	start := time.Now()
	require.NoError(t, m.Signal(syscall.SIGTERM))
	m.wait()
	require.Less(t, time.Since(start), 29*time.Second)
	if m.ExitCode() != 0 {
		require.Equal(t, 1, m.ExitCode())
		require.Contains(t, m.LastLines(1), "did not stop within")
		require.Contains(t, m.LastLines(1), "The operator may not list the Proxies of namespace "+f.ns+": ")
	}
}

// TestAManagerNamesTheWatchedNamespaceThatRefuses: of two it could read one, and never became ready; all that it said was that a
// cache had not synced.
func TestAManagerNamesTheWatchedNamespaceThatRefuses(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	bindNothing(t, f)
	grantProxies(t, f)
	f.watch = []string{f.ns, "missing-" + f.ns}
	m := f.launch("--metrics-bind-address=0")
	m.lenient, m.killed = true, true
	const says = `The operator may not list the Proxies of namespace missing-`
	m.eventually(func(c *assert.CollectT) { require.Contains(c, m.Output(), says+f.ns+": ") })
	require.Equal(t, 1, strings.Count(m.Output(), says), "once, and of the other namespace nothing")
	require.Contains(t, m.Output(), "take missing-"+f.ns+" out of --watch-namespaces. The manager waits for it, and works on nothing until then.")
	require.NotContains(t, m.Output(), "of namespace "+f.ns+": its Role")
	status, body := get(t.Context(), "http://"+m.probes+"/readyz", "")
	require.NotEqual(t, http.StatusOK, status, body)
	f.watch = []string{f.ns} // dissolve looks there
}

// bindNothing makes the fleet's manager a user who may only read what cluster this is.
func bindNothing(t *testing.T, f *fleet) {
	t.Helper()
	tok := serviceAccount(t, f.ns, "unbound")
	kubeconfig, err := apiserver.WriteKubeconfig(cluster.dir, cluster.config, tok)
	require.NoError(t, err)
	f.kubeconfig = kubeconfig
	allow(t, f, "kube-system", f.ns+"-cluster", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
}

func grantProxies(t *testing.T, f *fleet) {
	t.Helper()
	allow(t, f, f.ns, "proxies",
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"proxies", "proxies/status"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}})
}

func allow(t *testing.T, f *fleet, ns, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	id := metav1.ObjectMeta{Namespace: ns, Name: name}
	require.NoError(t, cluster.admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: id, Rules: rules}))
	require.NoError(t, cluster.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: id, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.ns, Name: "unbound"}},
	}))
}

func TestMetricsAreForThoseWhomTheAPIServerLetsIn(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	m := f.start()
	at := "https://" + m.metrics + "/metrics"
	stranger, reader := serviceAccount(t, f.ns, "stranger"), serviceAccount(t, f.ns, "reader")
	require.NoError(t, cluster.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.ns + "-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "proxy-operator-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.ns, Name: "reader"}},
	}))
	eventually(t, func(c *assert.CollectT) { // it listens a moment after the manager is ready
		status, body := get(t.Context(), at, "")
		require.Equal(c, http.StatusUnauthorized, status, body)
	})
	cases := map[string]struct {
		url, token string
		want       []int
	}{
		"nobody":                        {at, "", []int{http.StatusUnauthorized}},
		"a token that nobody issued":    {at, "made-up", []int{http.StatusUnauthorized, http.StatusInternalServerError}}, // controller-runtime says 500
		"somebody without the role":     {at, stranger, []int{http.StatusForbidden}},
		"somebody with the role":        {at, reader, []int{http.StatusOK}},
		"without TLS":                   {strings.Replace(at, "https", "http", 1), reader, []int{http.StatusBadRequest, 0}}, // or the connection is reset
		"another path, with the role":   {strings.TrimSuffix(at, "metrics") + "debug/pprof/", reader, []int{http.StatusNotFound}},
		"another path, and nobody asks": {strings.TrimSuffix(at, "metrics") + "debug/pprof/", "", []int{http.StatusNotFound}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, body := get(t.Context(), c.url, c.token)
			require.Contains(t, c.want, status)
			if status != http.StatusOK {
				require.NotContains(t, body, "proxy_operator_")
			}
		})
	}

	l := login{"crawler", "measured-password-4Ez"}
	f.userData("boot", "#cloud-config\n# measured-user-data")
	f.credentials("login", l)
	f.create("measured", cloudInitFrom("boot"), authFrom("login"))
	f.create("measured-external", external("192.0.2.1", 3128, ""))
	f.create("measured-pending", cloudInitFrom("nowhere"))
	old := f.ready("measured")
	f.edit("measured", func(p *v1alpha1.Proxy) { port(3170)(&p.Spec) })
	f.replaced(old)
	eventually(t, func(c *assert.CollectT) {
		status, body := get(t.Context(), at, reader)
		require.Equal(c, http.StatusOK, status)
		for _, want := range []string{
			`proxy_operator_proxies{phase="Ready",provider="local"} 1`,
			`proxy_operator_proxies{phase="Unhealthy",provider=""} 1`,
			`proxy_operator_proxies{phase="Pending",provider="local"} 1`,
			`proxy_operator_replacements_total{reason="drift"} 1`,
			`proxy_operator_provider_calls_total{class="OK",op="create",provider="local"} 2`,
			`proxy_operator_provider_calls_total{class="OK",op="delete",provider="local"} 1`,
			`proxy_operator_provider_calls_total{class="OK",op="list",provider="local"} `,
			`proxy_operator_instances{provider="local"} 1`,
			`proxy_operator_guard_calls_in_flight{provider="local"} `,
			`proxy_operator_guard_circuit_open{provider="local"} 0`,
			`proxy_operator_provider_call_duration_seconds_count{op="create",provider="local"} 2`,
			`proxy_operator_probes_total{fault="none",reason="Healthy"} `,
			`proxy_operator_health{health="Healthy"} 1`,
			`controller_runtime_reconcile_total{controller="proxy",result="`,
		} {
			require.True(c, strings.Contains("\n"+body, "\n"+want), "no %s in:\n%s", want, onlyOurs(body))
		}
		for _, s := range f.sensitive {
			require.NotContains(c, body, strings.TrimPrefix(s, "#cloud-config\n"))
		}
	})
}

// onlyOurs leaves the operator's own samples of a scrape.
func onlyOurs(body string) string {
	var b strings.Builder
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "proxy_operator_") && !strings.Contains(line, "_bucket") {
			b.WriteString(line)
		}
	}
	return b.String()
}
