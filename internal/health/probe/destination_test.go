// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/judge"
)

func TestTargetsOfUsersThatLeadWhereNoProbeMayGo(t *testing.T) {
	judgeURL := plainTarget(t, judge.Handler()).URL
	_, port, _ := strings.Cut(strings.TrimPrefix(judgeURL, "http://"), ":")
	live := proxyAt(t, probe.HTTP, forwardProxy(t, forwardproxy.Config{}))
	live.Trusted = true
	cases := map[string]struct{ why, url string }{
		"loopback":                 {"", judgeURL},
		"metadata":                 {"", "http://169.254.169.254/latest/meta-data"},
		"IPv6 loopback":            {"", "http://[::1]/"},
		"mapped":                   {"", "http://[::ffff:127.0.0.1]/"},
		"with a zone":              {"", "http://[fe80::1%25eth0]/"},
		"localhost":                {"", "http://localhost:" + port},
		"LOCALHOST.":               {"", "http://LOCALHOST.:" + port},
		"under localhost":          {"", "http://a.localhost:" + port},
		"a short address":          {"127.0.0.1 to many resolvers", "http://127.1:" + port},
		"a number":                 {"the same", "http://2130706433:" + port},
		"a hexadecimal number":     {"the same", "http://0x7f000001:" + port},
		"octal":                    {"the same", "http://0177.0.0.1:" + port},
		"an address with a dot":    {"the same", "http://127.0.0.1.:" + port},
		"another scheme":           {"", "file:///etc/passwd"},
		"gopher":                   {"", "gopher://example.com/"},
		"no scheme":                {"", "example.com"},
		"user information":         {"it would be logged and shown", "http://a:b@example.com/"},
		"opaque":                   {"", "http:example.com"},
		"no host":                  {"", "http:///x"},
		"a host that splits lines": {"", "http://example.com%0d%0aX:1/"},
		"a blank in the host":      {"", "http://exa mple.com/"},
		"a port out of range":      {"", "http://example.com:70000/"},
		"port 0":                   {"nobody listens there", "http://example.com:0/"},
		"a blank in the query":     {"it would end the request line", "http://example.com/?a b"},
		"not a URL":                {"", "://"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &probe.Prober{Timeout: patience}
			for way, out := range map[string]probe.Outcome{
				"through a proxy": p.Probe(context.Background(), live, probe.Target{URL: tc.url}),
				"control":         p.Control(context.Background(), probe.Target{URL: tc.url}),
			} {
				require.Equal(t, probe.ReasonTargetDenied, out.Reason, "%s %s: %s", way, tc.why, out.Detail)
				require.Equal(t, probe.FaultTarget, out.Fault)
				require.Zero(t, out.ConnectLatency, "nothing was connected to")
			}
		})
	}
	p := &probe.Prober{Timeout: patience}
	out := p.Control(context.Background(), probe.Target{URL: judgeURL, Judge: true, Trusted: true})
	require.Equal(t, probe.ReasonHealthy, out.Reason, "the operator's own target may be anywhere")
}

func TestTargetsOfTheOperatorAreCheckedByTheSameRules(t *testing.T) {
	cases := map[string]struct{ url, want string }{
		"a name":                    {"https://example.com", ""},
		"with all there can be":     {"http://example.com:8080/a%20b/ü?c=d#e", ""},
		"the machine itself":        {"http://127.0.0.1:8082/", ""},
		"its name":                  {"http://localhost:8082", ""},
		"IPv6":                      {"http://[::1]:8082/", ""},
		"no scheme":                 {"example.com:8080", "not absolute"},
		"another scheme":            {"ftp://example.com/", "http or https"},
		"no host":                   {"http:///x", "the host"},
		"a host that is none":       {"http://exa$mple.com/", "the host"},
		"a short address":           {"http://127.1/", "the host"},
		"a zone":                    {"http://[fe80::1%25eth0]/", "the address"},
		"a port out of range":       {"http://example.com:70000/", "from 1 to 65535"},
		"port 0":                    {"http://example.com:0/", "from 1 to 65535"},
		"a word for a port":         {"http://example.com:http/", "not absolute"},
		"a blank in the query":      {"http://example.com/?a b", "written with %"},
		"a password":                {"http://a:secret@example.com/", "without user information"},
		"nothing":                   {"", "not absolute"},
		"what can't be taken apart": {"http://example.com/%zz", "not absolute"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := probe.CheckTarget(c.url)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestANameThatLeadsToADeniedAddress(t *testing.T) {
	_, port, _ := strings.Cut(strings.TrimPrefix(plainTarget(t, judge.Handler()).URL, "http://"), ":")
	p := &probe.Prober{Timeout: patience, Resolver: resolver(t)}
	for _, name := range []string{"loop.test", "wide.test"} {
		target := probe.Target{URL: "http://" + name + ":" + port, Judge: true}
		out := p.Control(context.Background(), target)
		require.Equal(t, probe.ReasonTargetDenied, out.Reason, out.Detail)
		require.Equal(t, probe.FaultTarget, out.Fault)

		target.Trusted = true
		out = p.Control(context.Background(), target)
		require.Equal(t, probe.ReasonHealthy, out.Reason, "the test's server is there: %s", out.Detail)
	}
}

func TestAProxyAtADeniedAddress(t *testing.T) {
	target, _ := judgeTargets(t)
	target.Trusted = true
	live := proxyAt(t, probe.HTTP, forwardProxy(t, forwardproxy.Config{}))
	p := &probe.Prober{Timeout: patience, Resolver: resolver(t)}
	for _, host := range []string{live.Host, "loop.test", "::ffff:127.0.0.1"} {
		proxy := live
		proxy.Host = host
		out := p.Probe(context.Background(), proxy, target)
		require.Equal(t, probe.ReasonProxyDenied, out.Reason, out.Detail)
		require.Equal(t, probe.FaultProxy, out.Fault, "it is never healthy")

		proxy.Trusted = true
		out = p.Probe(context.Background(), proxy, target)
		require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)
	}
	p.DenyProxy = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	out := p.Probe(context.Background(), live, target)
	require.Equal(t, probe.ReasonHealthy, out.Reason, "a list replaces the default: %s", out.Detail)
}
