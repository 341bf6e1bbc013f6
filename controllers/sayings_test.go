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
