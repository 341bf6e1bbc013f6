// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// reasonsIn reads the string constants named Reason... from the source of a package, so that none can be forgotten here.
func reasonsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var out []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) != 1 {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			out = append(out, value)
			return true
		})
	}
	require.NotEmpty(t, out)
	return out
}

// TestATargetThatNobodyReachesIsNamed: with a name mistyped in its URL a Proxy said for ever that no request had got
// through, and not why.
func TestATargetThatNobodyReachesIsNamed(t *testing.T) {
	c := Vitals{Probed: true, Health: health.Unknown, Reason: v1alpha1.ReasonTargetUnreachable}.healthy()
	require.Equal(t, metav1.ConditionUnknown, c.status)
	require.Equal(t, v1alpha1.ReasonTargetUnreachable, c.reason)
	require.Contains(t, c.message, "look at the target's URL")
}

// TestNothingExternalIsSaidToBeReplaced: there the guard against correlated failures has nothing to hold.
func TestNothingExternalIsSaidToBeReplaced(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.create("ext", func(p *v1alpha1.Proxy) {
		p.Spec = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: "192.0.2.1", Port: 3128}}
	})
	w.r.HealthHeld(t.Context(), poolExternal, true)
	require.Empty(t, w.events)
}

func TestEveryReasonOfAProbeIsAWordOfTheAPIAndHasASaying(t *testing.T) {
	words := reasonsIn(t, filepath.Join("..", "api", "v1alpha1"))
	told := []string{string(probe.ReasonHealthy)}
	for reason, said := range sayings() {
		told = append(told, reason)
		require.Regexp(t, `^[A-Za-z]`, said)
		require.NotRegexp(t, `[.%]$|%`, said, "it is put into a sentence as it is")
	}
	reasons := reasonsIn(t, filepath.Join("..", "internal", "health", "probe"))
	require.Subset(t, words, reasons, "docs/states.md explains the words of the API")
	require.ElementsMatch(t, reasons, told)
}

func TestAProxyWithoutAVerdictTellsWhoseFaultItIs(t *testing.T) {
	cases := map[string]struct {
		why    string
		reason probe.Reason
		want   string
	}{
		"nothing is known":                     {"the first round isn't over", "", "Unknown/Probing"},
		"the target answers with an error":     {"the user can mend it", probe.ReasonTargetError, "Unknown/TargetError"},
		"the target is one that is not asked":  {"the user can write another", probe.ReasonTargetDenied, "Unknown/TargetDenied"},
		"the operator is out of sockets":       {"whoever runs it can mend it", probe.ReasonLocalError, "Unknown/LocalError"},
		"a failure that others are to confirm": {"it may be the target's", probe.ReasonTimeout, "Unknown/Probing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Vitals{Probed: true, Health: health.Unknown, Reason: string(c.reason)}.healthy()
			require.Equal(t, c.want, string(got.status)+"/"+got.reason, c.why)
		})
	}
}

// TestAnExternalProxyWithoutItsSecretIsNotCalledReady: that the Secret is gone tells nothing about the proxy.
func TestAnExternalProxyWithoutItsSecretIsNotCalledReady(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	w.create("px", func(p *v1alpha1.Proxy) {
		p.Spec = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{
			Host: "proxy.example.com", Port: 3128, Auth: &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "login"}},
		}}
	})
	pass := func() *v1alpha1.Proxy {
		_, err := w.pass("px")
		require.NoError(t, err)
		return w.get("px")
	}
	p := pass()
	require.Equal(t, "True/AuthError", statusOf(p, v1alpha1.ConditionStalled))
	require.Equal(t, "False/Probing", statusOf(p, v1alpha1.ConditionReady), "no request has got through it")
	require.Empty(t, d.watched, "without credentials a 407 would be taken for its fault")

	w.secret("login", map[string]string{"username": "crawler", "password": "hunter2"})
	w.ready("px")
	require.NoError(t, w.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "login"}}))
	p = pass()
	require.Equal(t, "True/ExternalEndpoint", statusOf(p, v1alpha1.ConditionReady), "it works as it did")
	require.Equal(t, "True/AuthError", statusOf(p, v1alpha1.ConditionStalled))
	d.Forget(string(p.UID))
	require.Equal(t, "True/ExternalEndpoint", statusOf(pass(), v1alpha1.ConditionReady), "a restart tells nothing about it either")
	w.edit("px", func(p *v1alpha1.Proxy) { p.Spec.Endpoint.Host = "other.example.com" })
	require.Equal(t, "False/Probing", statusOf(pass(), v1alpha1.ConditionReady), "of another endpoint nothing is known")
	require.Equal(t, "False/Probing", statusOf(pass(), v1alpha1.ConditionReady), "in the next pass, too")
}

func TestMessagesAboutHealthHoldNoSecret(t *testing.T) {
	for _, reason := range []probe.Reason{probe.ReasonOpenProxy, probe.ReasonAuthFailed, probe.ReasonAuthRequired} {
		t.Run(string(reason), func(t *testing.T) {
			w, d := probed(t, cloud.Pod())
			w.secret("login", map[string]string{"username": "crawler-name", "password": "hunter2"})
			w.create("px", func(p *v1alpha1.Proxy) {
				p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "login"}}
			})
			p := w.ready("px")
			require.Equal(t, "hunter2", d.watched[string(p.UID)].Proxy.Password, "the probes have it")
			d.falls(p, reason)
			p = w.gives("px", string(reason))
			all := fmt.Sprint(p.Status, p.Annotations, w.events)
			require.Contains(t, all, saying(string(reason)))
			require.NotContains(t, all, "hunter2")
			require.NotContains(t, all, "crawler-name")
		})
	}
}

func TestWhatIsSaidOfAProxyDoesNotContradictItself(t *testing.T) {
	cases := map[string]struct {
		why    string
		vitals Vitals
		want   string
	}{
		"an open one that worked":      {"requests do get through it", Vitals{Health: health.Unhealthy, Booted: true, Reason: v1alpha1.ReasonOpenProxy}, "False/The proxy must not be used: the proxy serves without credentials, or with wrong ones, though it is to ask for them."},
		"one that was open all along":  {"the same", Vitals{Health: health.Unhealthy, Reason: v1alpha1.ReasonOpenProxy}, "Unknown/The proxy must not be used: the proxy serves without credentials, or with wrong ones, though it is to ask for them."},
		"one that worked":              {"", Vitals{Health: health.Unhealthy, Booted: true, Reason: v1alpha1.ReasonTimeout}, "False/Requests don't get through the proxy: the proxy doesn't answer in time."},
		"one that never worked":        {"", Vitals{Health: health.Unhealthy, Reason: v1alpha1.ReasonTimeout}, "Unknown/No request has got through the proxy yet: the proxy doesn't answer in time."},
		"one whose target is at fault": {"", Vitals{Health: health.Unknown, Reason: v1alpha1.ReasonTargetError}, "Unknown/No request has got through the proxy yet: the target answers with a status that isn't expected."},
		"one that isn't known yet":     {"", Vitals{Health: health.Unknown}, "Unknown/No request has got through the proxy yet."},
		"one that works":               {"", Vitals{Health: health.Healthy, Booted: true, Reason: v1alpha1.ReasonHealthy}, "True/Requests get through the proxy."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.vitals.Probed = true
			got := c.vitals.healthy()
			require.Equal(t, c.want, string(got.status)+"/"+got.message, c.why)
		})
	}
}

func TestReadySaysThatTrafficWasProved(t *testing.T) {
	created := &cond{metav1.ConditionTrue, v1alpha1.ReasonCreated, messageCreated}
	external := &cond{metav1.ConditionTrue, v1alpha1.ReasonExternalEndpoint, messageExternal}
	healthy := Vitals{Probed: true, Health: health.Healthy, Reason: v1alpha1.ReasonHealthy}
	cases := map[string]struct {
		why    string
		vitals Vitals
		of     *cond
		want   cond
	}{
		"a machine that works":           {"the reason is what made it Ready", healthy, created, cond{metav1.ConditionTrue, v1alpha1.ReasonCreated, "The machine runs. Requests get through the proxy."}},
		"an endpoint that works":         {"the same", healthy, external, cond{metav1.ConditionTrue, v1alpha1.ReasonExternalEndpoint, "The endpoint is run by somebody else. Requests get through the proxy."}},
		"where proxies aren't probed":    {"nobody has seen a request get through", Vitals{}, created, *created},
		"a machine that nobody can tell": {"Ready is of the health", Vitals{Probed: true, Health: health.Unknown}, created, cond{metav1.ConditionFalse, v1alpha1.ReasonProbing, messageProbing}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, *c.vitals.weigh(verdict{provisioned: c.of}).ready, c.why)
		})
	}
}

func TestPhaseOfAnExternalProxyThatFailsFromTheStart(t *testing.T) {
	cases := map[string]struct {
		why    string
		mode   v1alpha1.Mode
		status metav1.ConditionStatus
		reason string
		want   v1alpha1.Phase
	}{
		"it refuses":                     {"there is nothing that could still come up", v1alpha1.ModeExternal, metav1.ConditionUnknown, v1alpha1.ReasonConnectRefused, v1alpha1.PhaseUnhealthy},
		"it is open":                     {"the same", v1alpha1.ModeExternal, metav1.ConditionUnknown, v1alpha1.ReasonOpenProxy, v1alpha1.PhaseUnhealthy},
		"it may not be connected to":     {"the same", v1alpha1.ModeExternal, metav1.ConditionUnknown, v1alpha1.ReasonProxyDenied, v1alpha1.PhaseUnhealthy},
		"nothing is known yet":           {"its first round isn't over", v1alpha1.ModeExternal, metav1.ConditionUnknown, v1alpha1.ReasonProbing, v1alpha1.PhasePending},
		"the target is at fault":         {"it may work", v1alpha1.ModeExternal, metav1.ConditionUnknown, v1alpha1.ReasonTargetError, v1alpha1.PhasePending},
		"there is no target":             {"the same", v1alpha1.ModeExternal, metav1.ConditionUnknown, v1alpha1.ReasonNoTargets, v1alpha1.PhasePending},
		"it worked and doesn't any more": {"as ever", v1alpha1.ModeExternal, metav1.ConditionFalse, v1alpha1.ReasonTimeout, v1alpha1.PhaseUnhealthy},
		"a machine that never worked":    {"it may still come up", v1alpha1.ModeManaged, metav1.ConditionUnknown, v1alpha1.ReasonConnectRefused, v1alpha1.PhaseProvisioning},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.Proxy{Spec: v1alpha1.ProxySpec{Mode: c.mode}}
			provisioned := v1alpha1.ReasonCreated
			if c.mode == v1alpha1.ModeExternal {
				provisioned = v1alpha1.ReasonExternalEndpoint
			}
			says(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, provisioned)(p)
			says(v1alpha1.ConditionReady, metav1.ConditionFalse, c.reason)(p)
			says(v1alpha1.ConditionHealthy, c.status, c.reason)(p)
			require.Equal(t, c.want, computePhase(p), c.why)
		})
	}
}
