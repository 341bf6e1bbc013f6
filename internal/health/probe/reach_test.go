// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/test/nameserver"
)

// resolver knows names under .test: loop is 127.0.0.1, wide is
// ::ffff:127.0.0.1, sick makes the server fail, others are unknown.
func resolver(tb testing.TB) *net.Resolver {
	tb.Helper()
	return nameserver.Resolver(tb, func(name string, of dnsmessage.Type) (body dnsmessage.ResourceBody, code dnsmessage.RCode, silent bool) {
		switch {
		case strings.HasPrefix(name, "sick.test"): // whatever this machine's search domains add
			code = dnsmessage.RCodeServerFailure
		case name == "wide.test" && of == dnsmessage.TypeAAAA:
			body = &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("::ffff:127.0.0.1").As16()}
		case name == "loop.test" && of == dnsmessage.TypeA:
			body = &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
		case name != "loop.test" && name != "wide.test":
			code = dnsmessage.RCodeNameError
		}
		return body, code, false
	})
}

func TestAProxyThatCannotBeReached(t *testing.T) {
	target, _ := judgeTargets(t)
	p := prober(patience)
	p.Resolver = resolver(t)
	gone := proxyAt(t, probe.HTTP, deadAddress(t))
	named := func(name string) probe.Proxy { return probe.Proxy{Host: name, Port: 3128, Protocol: probe.HTTP} }
	cases := map[string]struct {
		why    string
		proxy  probe.Proxy
		fault  probe.Fault
		reason probe.Reason
	}{
		"nobody listens":               {"", gone, probe.FaultProxy, probe.ReasonConnectRefused},
		"its name has no address":      {"", named("unknown.test"), probe.FaultProxy, probe.ReasonDNSError},
		"the name server fails":        {"that is the operator's own trouble", named("sick.test"), probe.FaultUnclear, probe.ReasonDNSError},
		"nobody listens, on IPv6":      {"", probe.Proxy{Host: "::1", Port: gone.Port, Protocol: probe.HTTP}, probe.FaultProxy, probe.ReasonConnectRefused},
		"nobody listens, SOCKS":        {"", probe.Proxy{Host: gone.Host, Port: gone.Port, Protocol: probe.SOCKS5}, probe.FaultProxy, probe.ReasonConnectRefused},
		"nobody listens, by its name":  {"", probe.Proxy{Host: "loop.test", Port: gone.Port, Protocol: probe.HTTP}, probe.FaultProxy, probe.ReasonConnectRefused},
		"nobody listens, mapped to v6": {"", probe.Proxy{Host: "wide.test", Port: gone.Port, Protocol: probe.HTTP}, probe.FaultProxy, probe.ReasonConnectRefused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := p.Probe(context.Background(), tc.proxy, target)
			require.Equal(t, tc.reason, out.Reason, "%s: %s", tc.why, out.Detail)
			require.Equal(t, tc.fault, out.Fault, tc.why)
		})
	}
}

func TestWhatADialsErrorMeans(t *testing.T) {
	wrap := func(err error) error {
		return fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", err)})
	}
	cases := map[string]struct {
		why    string
		err    error
		fault  probe.Fault
		reason probe.Reason
	}{
		"no such host in the network": {"the machine is gone", wrap(syscall.EHOSTUNREACH), probe.FaultProxy, probe.ReasonUnreachable},
		"no route":                    {"this machine has no IPv6, say", wrap(syscall.ENETUNREACH), probe.FaultUnclear, probe.ReasonUnreachable},
		"the kernel gave up":          {"", wrap(syscall.ETIMEDOUT), probe.FaultProxy, probe.ReasonConnectTimeout},
		"reset":                       {"", wrap(syscall.ECONNRESET), probe.FaultProxy, probe.ReasonReset},
		"out of descriptors":          {"a busy operator must not blame the fleet", wrap(syscall.EMFILE), probe.FaultUnclear, probe.ReasonLocalError},
		"out of ports":                {"the same", wrap(syscall.EADDRNOTAVAIL), probe.FaultUnclear, probe.ReasonLocalError},
		"not permitted":               {"a firewall of this machine", wrap(syscall.EPERM), probe.FaultUnclear, probe.ReasonLocalError},
		"the lookup timed out":        {"", &net.DNSError{IsTimeout: true}, probe.FaultUnclear, probe.ReasonDNSError},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			fault, reason := probe.DialFailure(tc.err)
			require.Equal(t, tc.reason, reason, tc.why)
			require.Equal(t, tc.fault, fault, tc.why)
		})
	}
}

func TestAProxyOnIPv6Only(t *testing.T) {
	target, _ := judgeTargets(t)
	inner := forwardProxy(t, forwardproxy.Config{})
	address := badProxy(t, "[::1]:0", func(p peer) {
		upstream, err := new(net.Dialer).DialContext(context.Background(), "tcp", inner)
		if err != nil {
			return
		}
		go func() {
			_, _ = p.in.WriteTo(upstream)
			_ = upstream.Close()
		}()
		_, _ = upstream.(*net.TCPConn).WriteTo(p)
	})
	proxy := proxyAt(t, probe.HTTP, address)
	out := prober(patience).Probe(context.Background(), proxy, target)
	require.Equal(t, probe.ReasonHealthy, out.Reason, out.Detail)

	proxy.Host = "127.0.0.1"
	out = prober(patience).Probe(context.Background(), proxy, target)
	require.Equal(t, probe.ReasonConnectRefused, out.Reason, out.Detail)
}

func TestATargetOnIPv6(t *testing.T) {
	proxy := proxyAt(t, probe.HTTP, forwardProxy(t, forwardproxy.Config{}))
	for _, way := range []probe.Protocol{probe.HTTP, probe.SOCKS5} {
		var heard []byte
		target := probe.Target{URL: "http://[::1]:1/x"}
		if way == probe.SOCKS5 {
			seen := make(chan []byte, 1)
			proxy = proxyAt(t, way, badProxy(t, "127.0.0.1:0", func(p peer) {
				p.take(3)
				p.say("\x05\x00")
				b := make([]byte, 22)
				_, _ = p.in.Read(b)
				seen <- b
			}))
			prober(patience).Probe(context.Background(), proxy, target)
			heard = <-seen
			require.Equal(t, append([]byte{5, 1, 0, 4, 15: 0, 19: 1}, 0, 1), heard[:22])
			continue
		}
		out := prober(patience).Probe(context.Background(), proxy, target)
		require.Equal(t, probe.ReasonTargetUnreachable, out.Reason, "the proxy tried, and said so: %s", out.Detail)
	}
}

func TestACallerThatGivesUpBlamesNobody(t *testing.T) {
	target, _ := judgeTargets(t)
	asked := make(chan struct{}, 1)
	silent := badProxy(t, "127.0.0.1:0", func(p peer) {
		p.hear()
		asked <- struct{}{}
		p.wait()
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-asked
		cancel()
	}()
	out := prober(patience).Probe(ctx, proxyAt(t, probe.HTTP, silent), target)
	require.Equal(t, probe.ReasonCanceled, out.Reason)
	require.Equal(t, probe.FaultUnclear, out.Fault)
	require.Less(t, out.Latency, patience/2)
}

func TestTheCallersDeadlineRules(t *testing.T) {
	target, _ := judgeTargets(t)
	silent := badProxy(t, "127.0.0.1:0", func(p peer) { p.wait() })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	out := prober(patience).Probe(ctx, proxyAt(t, probe.HTTP, silent), target)
	require.Equal(t, probe.ReasonTimeout, out.Reason)
	require.Less(t, out.Latency, patience/2)
}
