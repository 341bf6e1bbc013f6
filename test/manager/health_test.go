// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/internal/judge"
)

// inClear is the flag for tests that read metrics.
const inClear = "--metrics-secure=false"

// sample is the sum of the manager's samples whose lines begin so.
func (m *manager) sample(t require.TestingT, begin string) (sum float64) {
	status, body := get(m.t.Context(), "http://"+m.metrics+"/metrics", "")
	require.Equal(t, http.StatusOK, status, body)
	for line := range strings.Lines(body) {
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(line, begin) {
			v, err := strconv.ParseFloat(fields[1], 64)
			require.NoError(t, err, line)
			sum += v
		}
	}
	return sum
}

// send sends a signal to the process of a Proxy.
func (f *fleet) send(p *v1alpha1.Proxy, s syscall.Signal) {
	f.t.Helper()
	require.NoError(f.t, syscall.Kill(f.processOf(p), s))
}

func (f *fleet) unhealthy(name, reason string) *v1alpha1.Proxy {
	f.t.Helper()
	return f.await(name, func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionHealthy, "False", reason)
		requireCondition(c, p, v1alpha1.ConditionReady, "False", reason)
		require.Equal(c, v1alpha1.PhaseUnhealthy, p.Status.Phase)
	})
}

// forwardProxy runs one beside the operator, as somebody else would, until the test ends.
func (f *fleet) forwardProxy(listen string) (*child.Child, netip.AddrPort) {
	f.t.Helper()
	dir, err := os.MkdirTemp(f.dir, "external-")
	require.NoError(f.t, err)
	ready := filepath.Join(dir, "ready.json")
	c, err := child.Start(child.Command{
		Name: "the external proxy", Path: cluster.binary, Env: []string{}, Log: filepath.Join(dir, "log"),
		Args: []string{"forward-proxy", "--listen=" + listen, "--ready-file=" + ready},
	})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, c.Kill()) })
	var at netip.AddrPort
	eventually(f.t, func(t *assert.CollectT) {
		require.False(f.t, c.Ended(), c.LastLines(5))
		raw, err := os.ReadFile(ready)
		require.NoError(t, err)
		var told struct {
			Address netip.Addr `json:"address"`
			Port    uint16     `json:"port"`
		}
		require.NoError(t, json.Unmarshal(raw, &told))
		at = netip.AddrPortFrom(told.Address, told.Port)
	})
	return c, at
}

func TestAProxyThatHangsIsFoundAndReplacedUnlessItsSpecForbids(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.health = append(f.health, "--unhealthy-timeout=2s")
	m := f.start(inClear)
	none := v1alpha1.RemediationNone
	f.create("hangs")
	f.create("hangs-and-stays", func(s *v1alpha1.ProxySpec) { s.HealthCheck = &v1alpha1.HealthCheck{Remediation: &none} })
	f.create("fine")
	hangs, stays, fine := f.ready("hangs"), f.ready("hangs-and-stays"), f.ready("fine")
	f.send(stays, syscall.SIGSTOP)
	f.unhealthy("hangs-and-stays", v1alpha1.ReasonTimeout)
	f.send(hangs, syscall.SIGSTOP)
	stopped := time.Now()
	f.unhealthy("hangs", v1alpha1.ReasonTimeout)
	t.Logf("found after %s", time.Since(stopped))
	p := f.replaced(hangs)
	t.Logf("replaced after %s", time.Since(stopped))
	requireTraffic(t, p, login{})
	requireCondition(t, p, v1alpha1.ConditionHealthy, "True", v1alpha1.ReasonHealthy)
	f.awaitReasons(hangs, v1alpha1.ReasonProvisioning, v1alpha1.ReasonCreated, v1alpha1.ReasonHealthy, v1alpha1.ReasonTimeout,
		v1alpha1.ReasonReplacing, v1alpha1.ReasonProvisioning, v1alpha1.ReasonCreated, v1alpha1.ReasonHealthy)
	require.Contains(t, f.events(t.Context(), hangs.UID)[4].Note, "cause: unhealthy")
	require.InDelta(t, 1, m.sample(t, `proxy_operator_replacements_total{reason="unhealthy"}`), 0)

	p = f.unhealthy("hangs-and-stays", v1alpha1.ReasonTimeout)
	require.Equal(t, stays.Status.ProviderID, p.Status.ProviderID, "remediation: None")
	require.InDelta(t, 1, m.sample(t, `proxy_operator_health{health="Unhealthy"}`), 0)
	f.send(stays, syscall.SIGCONT)
	p = f.ready("hangs-and-stays")
	require.Equal(t, stays.Status.ProviderID, p.Status.ProviderID)
	f.requireUntouched(fine)
}

func TestAUserSeesTheHealthAndTheExitAddress(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start()
	f.create("shown")
	p := f.ready("shown")
	require.Equal(t, p.Status.IP, p.Status.ExitIP, "a machine of local leaves by the address at which it listens")
	requireCondition(t, p, v1alpha1.ConditionHealthy, "True", v1alpha1.ReasonHealthy)

	var table metav1.Table
	transport, err := rest.HTTPClientFor(cluster.config)
	require.NoError(t, err)
	server, _, err := rest.DefaultServerUrlFor(cluster.config)
	require.NoError(t, err)
	at := server.JoinPath("apis", v1alpha1.GroupVersion.String(), "namespaces", f.ns, "proxies")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.String(), http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io") // as kubectl asks
	resp, err := transport.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&table))
	require.Len(t, table.Rows, 1)
	cells := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		cells[column.Name] = table.Rows[0].Cells[i]
	}
	require.Equal(t, "True", cells["Healthy"])
	require.Equal(t, "True", cells["Ready"])
	require.Equal(t, p.Status.ExitIP, cells["ExitIP"])
}

func TestTheHealthOfAnExternalProxyFollowsIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start()
	c, at := f.forwardProxy("127.0.0.1:0")
	f.create("followed", external(at.Addr().String(), int32(at.Port()), ""))
	requireTraffic(t, f.ready("followed"), login{})
	require.NoError(t, c.Kill())
	p := f.unhealthy("followed", v1alpha1.ReasonConnectRefused)
	requireCondition(t, p, v1alpha1.ConditionProvisioned, "True", v1alpha1.ReasonExternalEndpoint)
	f.forwardProxy(at.String())
	p = f.ready("followed")
	requireTraffic(t, p, login{})
	f.awaitReasons(p, v1alpha1.ReasonExternalEndpoint, v1alpha1.ReasonHealthy, v1alpha1.ReasonConnectRefused, v1alpha1.ReasonHealthy)
}

func TestAnOpenProxyThatIsToAskForAPasswordIsNeverReady(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start()
	f.credentials("login", login{"crawler", "ignored-password-2Mh"})
	_, at := f.forwardProxy("127.0.0.1:0")
	f.create("open", external(at.Addr().String(), int32(at.Port()), "login"))
	p := f.await("open", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		require.False(t, meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady), "%+v", p.Status)
		requireCondition(c, p, v1alpha1.ConditionReady, "False", v1alpha1.ReasonOpenProxy)
	})
	require.NotContains(t, f.reasons(p), v1alpha1.ReasonHealthy)
}

func TestWithoutATargetAProxyIsStalledAndSaysSo(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start("--judge-bind-address=0")
	f.create("unproved")
	p := f.await("unproved", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonNoTargets)
	})
	requireCondition(t, p, v1alpha1.ConditionReady, "False", v1alpha1.ReasonNoTargets)
	requireCondition(t, p, v1alpha1.ConditionProvisioned, "True", v1alpha1.ReasonCreated)
	requireTraffic(t, p, login{})
	f.edit("unproved", func(p *v1alpha1.Proxy) {
		p.Spec.HealthCheck = &v1alpha1.HealthCheck{Targets: []v1alpha1.HealthTarget{{URL: cluster.origin.plain.URL}}}
	})
	requireTraffic(t, f.ready("unproved"), login{})
}

// Whoever writes Proxies could otherwise have the operator ask for what only its own machine may.
func TestAddressesOfTheOperatorsOwnMachineAreRefusedByDefault(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.health = slices.DeleteFunc(f.health, func(flag string) bool { return strings.HasPrefix(flag, "--health-deny-cidr") })
	f.start()
	_, at := f.forwardProxy("127.0.0.1:0")
	f.create("own-endpoint", external(at.Addr().String(), int32(at.Port()), ""))
	f.create("own-target", func(s *v1alpha1.ProxySpec) {
		s.HealthCheck = &v1alpha1.HealthCheck{Targets: []v1alpha1.HealthTarget{{URL: cluster.origin.plain.URL}}}
	})
	for name, reason := range map[string]string{"own-endpoint": v1alpha1.ReasonProxyDenied, "own-target": v1alpha1.ReasonTargetDenied} {
		f.await(name, func(c *assert.CollectT, p *v1alpha1.Proxy) {
			requireCondition(c, p, v1alpha1.ConditionReady, "False", reason)
		})
	}
}

func TestWithoutHealthChecksAProxyIsReadyWhenItsMachineRuns(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	m := f.start("--health-check=false", inClear)
	f.create("believed")
	f.create("believed-external", external("192.0.2.1", 3128, ""))
	p := f.ready("believed")
	requireCondition(t, p, v1alpha1.ConditionReady, "True", v1alpha1.ReasonCreated)
	for _, p := range []*v1alpha1.Proxy{p, f.ready("believed-external")} {
		require.Nil(t, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy))
		require.Empty(t, p.Status.ExitIP)
	}
	require.Zero(t, m.sample(t, "proxy_operator_probes_total"))
}

func TestARotatedSecretTakesDownATenthOfItsProxiesAtATime(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start()
	const all = 10
	before, after := login{"crawler", "rotated-password-3Ni"}, login{"crawler", "rotated-password-4Oj"}
	f.credentials("shared", before)
	old := map[string]*v1alpha1.Proxy{}
	for i := range all {
		f.create("shares-"+strconv.Itoa(i), authFrom("shared"))
	}
	for i := range all {
		p := f.ready("shares-" + strconv.Itoa(i))
		old[p.Name] = p
	}
	f.credentials("shared", after)
	fewest := all
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var list v1alpha1.ProxyList
		require.NoError(t, cluster.admin.List(t.Context(), &list, client.InNamespace(f.ns)))
		ready := slices.DeleteFunc(slices.Clone(list.Items), func(p v1alpha1.Proxy) bool {
			return !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
		})
		fewest = min(fewest, len(ready))
		for i := range list.Items {
			requireReplaced(c, old[list.Items[i].Name], &list.Items[i])
		}
	}, 2*patience, 20*time.Millisecond)
	require.Equal(t, all-1, fewest, "Ready at the worst moment")
	requireTraffic(t, f.read("shares-0"), after)
	requireRefused(t, f.read("shares-0"), before)
}

func TestATargetThatIsDownMakesNobodyUnhealthy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	target := httptest.NewServer(judge.Handler())
	f.health = append(f.health, "--unhealthy-timeout=1s")
	m := f.start("--judge-url="+target.URL, inClear)
	const all = 3
	var then []*v1alpha1.Proxy
	for i := range all {
		f.create("blameless-" + strconv.Itoa(i))
	}
	for i := range all {
		then = append(then, f.ready("blameless-"+strconv.Itoa(i)))
	}
	failed := func(t require.TestingT) float64 {
		return m.sample(t, "proxy_operator_probes_total") - m.sample(t, `proxy_operator_probes_total{fault="none"`)
	}
	was := failed(t)
	target.Close()
	const rounds = 6 // twice those that would make one unhealthy, and longer than --unhealthy-timeout
	eventually(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, failed(c), was+all*rounds) })
	f.requireUntouched(then...)
	require.InDelta(t, all, m.sample(t, `proxy_operator_health{health="Healthy"}`), 0)
	require.Zero(t, m.sample(t, "proxy_operator_replacements_total"))
}
