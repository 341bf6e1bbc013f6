// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// defaultTimeout is what a crawler may wait for a page; a proxy that takes longer
// is of no use.
const defaultTimeout = 10 * time.Second

// Prober sends requests. The zero value works. It is safe for concurrent use, and
// its fields must not be changed while in use.
type Prober struct {
	// Timeout bounds every request, lookup included; 0 is 10 s. An earlier
	// deadline of the context rules.
	Timeout time.Duration
	// Deny are the addresses that targets chosen by users may not have, DenyProxy
	// those of proxies. nil is DefaultDeny; empty but not nil is none.
	Deny, DenyProxy []netip.Prefix
	// Sessions lets TLS with https targets resume; nil is a full handshake each
	// time.
	Sessions tls.ClientSessionCache
	// Resolver looks names up; nil is the machine's own.
	Resolver *net.Resolver
	// Clock measures latencies; nil is the real clock.
	Clock clock.PassiveClock

	// own is this machine's address as a judge saw it last without a proxy.
	own atomic.Pointer[string]
}

// Probe sends one request for target through proxy and judges the answer.
func (p *Prober) Probe(ctx context.Context, proxy Proxy, target Target) Outcome {
	return p.request(ctx, &proxy, target)
}

// Open finds out whether a proxy with credentials serves without them or with
// wrong ones: ReasonOpenProxy with FaultProxy if so, ReasonHealthy if it refuses
// both or has no credentials, else the reason why it can't be told, with
// FaultUnclear. It sends up to two requests, each within Timeout.
func (p *Prober) Open(ctx context.Context, proxy Proxy, target Target) Outcome {
	out := Outcome{Fault: FaultNone, Reason: ReasonHealthy}
	if !proxy.hasCredentials() {
		return out
	}
	none, wrong := proxy, proxy
	none.Username, none.Password = "", ""
	wrong.Password = rand.Text()
	for _, intruder := range []Proxy{none, wrong} {
		got := p.request(ctx, &intruder, target)
		out.Latency += got.Latency
		switch got.Reason {
		case ReasonAuthRequired, ReasonAuthFailed, ReasonRefused:
			continue
		case ReasonHealthy, ReasonTargetError, ReasonAltered, ReasonStale, ReasonOpenProxy:
			out.Fault, out.Reason, out.Detail = FaultProxy, ReasonOpenProxy, "served without credentials"
			if intruder.hasCredentials() {
				out.Detail = "served with a wrong password"
			}
			return out
		default:
			out.Fault, out.Reason, out.Detail = FaultUnclear, got.Reason, got.Detail
			return out
		}
	}
	return out
}

// Control sends the same request without a proxy. ExitIP is this machine's own
// address. A failure is the target's or nobody's, never a proxy's.
func (p *Prober) Control(ctx context.Context, target Target) Outcome {
	out := p.request(ctx, nil, target)
	if out.Fault == FaultNone && out.ExitIP != "" {
		p.own.Store(&out.ExitIP)
	}
	return out
}

func (p *Proxy) hasCredentials() bool { return p.Username != "" || p.Password != "" }

// request sends one request, through proxy if it isn't nil.
func (p *Prober) request(ctx context.Context, proxy *Proxy, target Target) Outcome {
	timeout := p.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	x := exchange{clock: p.Clock, proxy: proxy, target: target, sessions: p.Sessions, own: p.own.Load()}
	if x.clock == nil {
		x.clock = clock.RealClock{}
	}
	begin := x.clock.Now()
	err := x.run(ctx, p)
	x.out.Latency = x.clock.Since(begin)
	if err == nil {
		x.out.Fault, x.out.Reason = FaultNone, ReasonHealthy
		return x.out
	}
	var f *failure
	if !errors.As(err, &f) {
		f = unclear(ReasonLocalError, "unexpected error") // can't be: every step classifies
	}
	if proxy == nil {
		f = f.ofControl()
	}
	x.out.Fault, x.out.Reason, x.out.Detail = f.fault, f.reason, f.detail
	return x.out
}
