// SPDX-License-Identifier: Apache-2.0

package daemons_test

import (
	"context"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/judge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func prober() *probe.Prober {
	return &probe.Prober{Timeout: patience, Deny: []netip.Prefix{}, DenyProxy: []netip.Prefix{}}
}

// targets are one that a proxy sees into, and one behind a tunnel.
func targets(tb testing.TB, h http.Handler) map[string]probe.Target {
	tb.Helper()
	plain, secure := httptest.NewServer(h), httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of daemons that hang
	secure.StartTLS()
	tb.Cleanup(plain.Close)
	tb.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	return map[string]probe.Target{"http": {URL: plain.URL}, "https": {URL: secure.URL, RootCAs: roots}}
}

func judges(tb testing.TB) map[string]probe.Target {
	tb.Helper()
	all := targets(tb, judge.Handler())
	for scheme, t := range all {
		t.Judge = true
		all[scheme] = t
	}
	return all
}

func answers(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// product is one that is tested, as it comes.
type product struct {
	protocol probe.Protocol
	kind     kind
	// anonymity with a target that the proxy sees into.
	anonymity string
}

func products() map[string]product {
	return map[string]product{
		"squid":     {probe.HTTP, squid, probe.AnonymityTransparent},
		"tinyproxy": {probe.HTTP, tinyproxy, probe.AnonymityAnonymous},
		"dante":     {probe.SOCKS5, dante, probe.AnonymityElite},
	}
}

// each runs a test for every product, with and without authentication, and for
// both kinds of target.
func each(t *testing.T, test func(t *testing.T, p product, d daemon, scheme string)) {
	t.Helper()
	for name, p := range products() {
		for _, auth := range []bool{false, true} {
			label := name
			if auth {
				label += " with a password"
			}
			t.Run(label, func(t *testing.T) {
				t.Parallel()
				d := start(t, p.protocol, p.kind, auth)
				for _, scheme := range []string{"http", "https"} {
					t.Run(scheme, func(t *testing.T) { test(t, p, d, scheme) })
				}
			})
		}
	}
}

func TestAHealthyDaemonIsHealthy(t *testing.T) {
	all := judges(t)
	each(t, func(t *testing.T, p product, d daemon, scheme string) {
		out := prober().Probe(context.Background(), d.Proxy, all[scheme])
		require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)
		require.Equal(t, probe.FaultNone, out.Fault)
		require.Equal(t, "127.0.0.1", out.ExitIP)
		require.False(t, out.Cached)
		anonymity := p.anonymity
		if scheme == "https" {
			anonymity = probe.AnonymityElite // nothing can be added inside a tunnel
		}
		require.Equal(t, anonymity, out.Anonymity)
	})
}

func TestATargetsNameIsLeftToTheDaemon(t *testing.T) {
	target := judges(t)["http"]
	target.URL = strings.Replace(target.URL, "127.0.0.1", "localhost", 1)
	each(t, func(t *testing.T, _ product, d daemon, _ string) {
		out := prober().Probe(context.Background(), d.Proxy, target)
		require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)
	})
}

func TestADaemonsAuthenticationIsTested(t *testing.T) {
	all := judges(t)
	each(t, func(t *testing.T, _ product, d daemon, scheme string) {
		none, wrong := d.Proxy, d.Proxy
		none.Username, none.Password = "", ""
		wrong.Username, wrong.Password = login, "wrong"
		p := prober()
		if d.Username == "" {
			out := p.Open(context.Background(), wrong, all[scheme])
			require.Equal(t, probe.ReasonOpenProxy, out.Reason, out.Detail)
			require.Equal(t, probe.FaultProxy, out.Fault)
			return
		}
		out := p.Probe(context.Background(), none, all[scheme])
		require.Equal(t, probe.ReasonAuthRequired, out.Reason, out.Detail)
		require.Equal(t, probe.FaultProxy, out.Fault)
		out = p.Probe(context.Background(), wrong, all[scheme])
		require.Equal(t, probe.ReasonAuthFailed, out.Reason, out.Detail)
		require.Equal(t, probe.FaultProxy, out.Fault)
		out = p.Open(context.Background(), d.Proxy, all[scheme])
		require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)
		require.Equal(t, probe.FaultNone, out.Fault)
	})
}

func TestADaemonWithABrokenTarget(t *testing.T) {
	failing := targets(t, answers(http.StatusInternalServerError))
	overloaded := targets(t, answers(http.StatusServiceUnavailable))
	down := "://127.0.0.1:" + strconv.Itoa(freePort(t))
	each(t, func(t *testing.T, p product, d daemon, scheme string) {
		check := func(target probe.Target, fault probe.Fault, reason probe.Reason) {
			t.Helper()
			out := prober().Probe(context.Background(), d.Proxy, target)
			require.Equal(t, reason, out.Reason, out.Detail)
			require.Equal(t, fault, out.Fault)
			require.Equal(t, probe.FaultTarget, prober().Control(context.Background(), target).Fault)
		}
		check(failing[scheme], probe.FaultTarget, probe.ReasonTargetError)
		if scheme == "http" && p.protocol == probe.HTTP {
			// It could be the proxy's own: the control request clears it.
			check(overloaded[scheme], probe.FaultProxy, probe.ReasonProxyError)
		} else {
			check(overloaded[scheme], probe.FaultTarget, probe.ReasonTargetError)
		}
		check(probe.Target{URL: scheme + down}, probe.FaultProxy, probe.ReasonTargetUnreachable)
	})
}

func TestADaemonThatForbidsTheTarget(t *testing.T) {
	each(t, func(t *testing.T, _ product, d daemon, scheme string) {
		out := prober().Probe(context.Background(), d.Proxy, probe.Target{URL: scheme + "://" + forbidden})
		require.Equal(t, probe.ReasonRefused, out.Reason, out.Detail)
		require.Equal(t, probe.FaultProxy, out.Fault)
	})
}

func TestADaemonThatHangsIsGoneAndComesBack(t *testing.T) {
	all := judges(t)
	each(t, func(t *testing.T, _ product, d daemon, scheme string) {
		p := prober()
		p.Timeout = 300 * time.Millisecond
		d.signal(t, syscall.SIGSTOP) // the kernel still accepts for it
		out := p.Probe(context.Background(), d.Proxy, all[scheme])
		require.Equal(t, probe.ReasonTimeout, out.Reason, out.Detail)
		require.Equal(t, probe.FaultProxy, out.Fault)
		d.signal(t, syscall.SIGCONT)
		require.Eventually(t, func() bool {
			return prober().Probe(context.Background(), d.Proxy, all[scheme]).Fault == probe.FaultNone
		}, patience, 20*time.Millisecond)
		if scheme == "https" { // the last of both
			d.signal(t, syscall.SIGKILL)
			require.Eventually(t, func() bool {
				return prober().Probe(context.Background(), d.Proxy, all[scheme]).Reason == probe.ReasonConnectRefused
			}, patience, 20*time.Millisecond)
		}
	})
}

func TestWhatADaemonTellsTheTarget(t *testing.T) {
	target := judges(t)["http"]
	for name, tc := range map[string]struct {
		why  string
		kind kind
		want string
	}{
		"squid, silent":          {"", squidWith("", "via off\nforwarded_for delete"), probe.AnonymityElite},
		"squid, Via alone":       {"", squidWith("", "forwarded_for delete"), probe.AnonymityAnonymous},
		"squid, unknown client":  {"a header without an address", squidWith("", "forwarded_for off"), probe.AnonymityAnonymous},
		"tinyproxy, silent":      {"", tinyproxyWith("DisableViaHeader Yes"), probe.AnonymityElite},
		"tinyproxy, X-Tinyproxy": {"it holds the client's address", tinyproxyWith("XTinyproxy Yes"), probe.AnonymityTransparent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, probe.HTTP, tc.kind, false)
			out := prober().Probe(context.Background(), d.Proxy, target)
			require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)
			require.Equal(t, tc.want, out.Anonymity, tc.why)
		})
	}
}

func TestSquidsCacheIsSeen(t *testing.T) {
	d := start(t, probe.HTTP, squid, false)
	target := judges(t)["http"]
	p := prober()
	for range 3 {
		out := p.Probe(context.Background(), d.Proxy, target)
		require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)
		require.False(t, out.Cached, "it keeps to no-store")
	}
	target.URL += "/?" + url.Values{"cache": {"1"}}.Encode()
	out := p.Probe(context.Background(), d.Proxy, target)
	require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)
	require.False(t, out.Cached, "the first of its kind")
	out = p.Probe(context.Background(), d.Proxy, target)
	require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)
	require.True(t, out.Cached)
}

func TestASquidThatTakesAnyPasswordIsOpen(t *testing.T) {
	d := start(t, probe.HTTP, squidWith("basic_fake_auth", ""), true)
	for scheme, target := range judges(t) {
		out := prober().Probe(context.Background(), d.Proxy, target)
		require.Equal(t, probe.ReasonHealthy, out.Reason, "%s: %s", scheme, out.Detail)
		out = prober().Open(context.Background(), d.Proxy, target)
		require.Equal(t, probe.ReasonOpenProxy, out.Reason, "%s: %s", scheme, out.Detail)
		require.Equal(t, "served with a wrong password", out.Detail)
	}
}
