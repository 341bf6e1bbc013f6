// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// failure is how a request failed and by whose fault.
type failure struct {
	fault  Fault
	reason Reason
	detail string // fixed words only: what a proxy says may hold what it was sent
}

// Error implements error.
func (f *failure) Error() string { return string(f.reason) + ": " + f.detail }

func byProxy(r Reason, detail string) *failure  { return &failure{FaultProxy, r, detail} }
func byTarget(r Reason, detail string) *failure { return &failure{FaultTarget, r, detail} }
func unclear(r Reason, detail string) *failure  { return &failure{FaultUnclear, r, detail} }

// ofControl is the failure when there is no proxy to blame.
func (f *failure) ofControl() *failure {
	g := *f
	if g.fault == FaultProxy {
		g.fault = FaultTarget
	}
	switch g.reason {
	case ReasonTargetError, ReasonTargetDenied, ReasonTargetUnreachable, ReasonLocalError, ReasonCanceled:
	case ReasonAltered, ReasonStale, ReasonRefused, ReasonProxyError, ReasonAuthRequired, ReasonAuthFailed:
		g.reason = ReasonTargetError
	default:
		g.reason = ReasonTargetUnreachable
	}
	return &g
}

// dialFailure says why there is no TCP connection.
func dialFailure(ctx context.Context, err error) *failure {
	if errors.Is(err, errDenied) {
		return byProxy(ReasonProxyDenied, "the address is in a range that no probe may connect to")
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return unclear(ReasonCanceled, "the caller gave up")
	}
	var lookup *net.DNSError
	if errors.As(err, &lookup) {
		if lookup.IsNotFound {
			return byProxy(ReasonDNSError, "the name has no address")
		}
		return unclear(ReasonDNSError, "the name lookup got no answer")
	}
	for _, known := range []struct {
		err     error
		failure *failure
	}{
		{syscall.ECONNREFUSED, byProxy(ReasonConnectRefused, "connection refused")},
		{syscall.ECONNRESET, byProxy(ReasonReset, "reset while connecting")},
		{syscall.EHOSTUNREACH, byProxy(ReasonUnreachable, "no route to the host")},
		{syscall.ENETUNREACH, unclear(ReasonUnreachable, "this machine has no route to the network")},
		{syscall.EAFNOSUPPORT, unclear(ReasonUnreachable, "this machine has no route to the network")},
		{syscall.ETIMEDOUT, byProxy(ReasonConnectTimeout, "no connection in time")},
		{os.ErrDeadlineExceeded, byProxy(ReasonConnectTimeout, "no connection in time")},
		{context.DeadlineExceeded, byProxy(ReasonConnectTimeout, "no connection in time")},
	} {
		if errors.Is(err, known.err) {
			return known.failure
		}
	}
	return unclear(ReasonLocalError, "out of sockets or ports, or no permission to connect")
}

// stage is how far a request has come; it decides what a broken connection means.
type stage int

const (
	// atProxy: the other end is the proxy, or the target of a request without one.
	atProxy stage = iota
	// inTunnel: the proxy has granted a tunnel and nothing came out of it yet.
	inTunnel
	// secured: TLS with the target is complete, what comes is the target's.
	secured
)

// broken says what an error on the connection means. last is the connection's own
// error, where err is what a parser made of it; begun tells whether some of the
// answer had come.
func (x *exchange) broken(ctx context.Context, err, last error, begun bool) *failure {
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(last, io.EOF)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return unclear(ReasonCanceled, "the caller gave up")
	case ctx.Err() != nil:
		return byProxy(ReasonTimeout, "no whole answer in time")
	case errors.Is(last, errTooLarge):
		return x.bad("the answer is too large")
	case x.stage == inTunnel && !begun:
		return byProxy(ReasonTunnelBroken, "the tunnel ended before an answer")
	case errors.Is(last, syscall.ECONNRESET), errors.Is(last, syscall.EPIPE):
		return byProxy(ReasonReset, "connection reset")
	case x.stage == secured:
		return x.brokenTLS(last, ended, begun)
	case ended:
		return cutOff(begun)
	default:
		return x.bad("not a valid answer")
	}
}

// brokenTLS is broken when the connection with the target is secured: then the
// target's own end of it can be told from one that somebody on the way made.
func (x *exchange) brokenTLS(last error, ended, begun bool) *failure {
	var alert *net.OpError
	switch {
	case ended && last == io.EOF: //nolint:errorlint // crypto/tls returns it bare, and only for a proper end
		return byTarget(ReasonTargetError, "the target ended the connection properly before its answer was complete")
	case ended:
		return cutOff(begun)
	case !errors.As(last, &alert):
		return x.bad("not a valid answer")
	case alert.Op == "local error": // a record that TLS doesn't accept
		return byProxy(ReasonAltered, "bytes inside the tunnel were changed")
	default:
		return byTarget(ReasonTargetError, "the target ended TLS with an alert")
	}
}

func cutOff(begun bool) *failure {
	if begun {
		return byProxy(ReasonTruncated, "the answer broke off")
	}
	return byProxy(ReasonNoAnswer, "closed without an answer")
}

// bad is an answer that makes no sense, by who wrote it.
func (x *exchange) bad(detail string) *failure {
	if x.stage == secured {
		return byTarget(ReasonTargetError, detail)
	}
	return byProxy(ReasonBadAnswer, detail)
}

// tlsFailure says why TLS failed, with the proxy itself or behind its tunnel.
func (x *exchange) tlsFailure(ctx context.Context, err error) *failure {
	var certificate *tls.CertificateVerificationError
	invalid := errors.As(err, &certificate)
	switch {
	case ctx.Err() != nil:
		return x.broken(ctx, err, err, false)
	case x.stage == atProxy && x.proxy != nil && errors.Is(err, syscall.ECONNRESET):
		return byProxy(ReasonReset, "reset during TLS with the proxy")
	case x.stage == atProxy && invalid:
		return byProxy(ReasonTLSError, "the certificate can't be verified")
	case x.stage == atProxy:
		return byProxy(ReasonTLSError, "the TLS handshake fails")
	case invalid:
		return byProxy(ReasonIntercepted, "behind the tunnel is a certificate that can't be verified")
	default:
		return byProxy(ReasonTunnelBroken, "behind the tunnel the TLS handshake fails")
	}
}
