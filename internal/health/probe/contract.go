// SPDX-License-Identifier: Apache-2.0

// Package probe sends one request through one proxy and says who failed, the
// proxy or somebody else. It keeps no connection and no goroutine between two
// probes, and knows nothing of Kubernetes.
package probe

import (
	"crypto/x509"
	"time"
)

// Protocol is what a proxy speaks with its clients.
type Protocol string

// The protocols that can be probed.
const (
	HTTP   Protocol = "HTTP"
	HTTPS  Protocol = "HTTPS" // HTTP inside TLS with the proxy itself
	SOCKS5 Protocol = "SOCKS5"
)

// Proxy is the way to one proxy. It is comparable.
type Proxy struct {
	// Host is a name or an address, without brackets.
	Host string
	Port int
	// Protocol decides how the proxy is spoken to.
	Protocol Protocol
	// Username and Password are what clients of the proxy send. Both empty: no
	// authentication.
	Username, Password string
	// RootCAs verify an HTTPS proxy; nil is the machine's own set.
	RootCAs *x509.CertPool
	// InsecureSkipVerify takes any certificate of an HTTPS proxy. That of the
	// target is always verified.
	InsecureSkipVerify bool
	// Trusted: the address comes from a provider and not from a user, so that
	// Prober.DenyProxy isn't asked.
	Trusted bool
}

// Target is what a probe asks for.
type Target struct {
	// URL is absolute, http or https, without user information.
	URL string
	// ExpectStatus are the good answers; empty is 200 to 399. Redirects aren't
	// followed. 407 is never good (claffin/cloudproxy counts it as alive).
	ExpectStatus []int
	// Judge: the answer is that of package judge, and is verified against the
	// nonce that was sent. With cache=1 in URL's query the answer may come from a
	// cache, which Outcome.Cached tells.
	Judge bool
	// RootCAs verify an https target; nil is the machine's own set.
	RootCAs *x509.CertPool
	// Trusted: the operator chose the target, not a user, so that Prober.Deny
	// isn't asked.
	Trusted bool
}

// Fault says who failed. It is a label of metrics.
type Fault string

// Those who can be at fault.
const (
	// FaultNone: nobody.
	FaultNone Fault = "none"
	// FaultProxy: the proxy, as far as one request can tell. If the control
	// request fails too, it proves nothing.
	FaultProxy Fault = "proxy"
	// FaultTarget: the target. It never counts against a proxy.
	FaultTarget Fault = "target"
	// FaultUnclear: the operator's own machine, or nobody knows. It never counts
	// against a proxy.
	FaultUnclear Fault = "unclear"
)

// Reason is why an Outcome is what it is: CamelCase, for conditions and metrics.
type Reason string

// All reasons. docs/states.md tells what to do about each.
const (
	// ReasonHealthy: the target's answer came through as expected.
	ReasonHealthy Reason = "Healthy"
	// ReasonDNSError: the proxy's name has no address. FaultUnclear if the lookup
	// itself failed.
	ReasonDNSError Reason = "DNSError"
	// ReasonConnectRefused: nobody listens on the proxy's port.
	ReasonConnectRefused Reason = "ConnectRefused"
	// ReasonConnectTimeout: no TCP connection with the proxy within the time.
	ReasonConnectTimeout Reason = "ConnectTimeout"
	// ReasonUnreachable: the network says that there is no way to the proxy's
	// host. FaultUnclear if this machine has no route at all.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonTLSError: TLS with an HTTPS proxy fails.
	ReasonTLSError Reason = "TLSError"
	// ReasonAuthRequired: the proxy asks for credentials and there are none.
	ReasonAuthRequired Reason = "AuthRequired"
	// ReasonAuthFailed: the proxy refuses the credentials.
	ReasonAuthFailed Reason = "AuthFailed"
	// ReasonRefused: a rule of the proxy forbids the request.
	ReasonRefused Reason = "Refused"
	// ReasonProxyError: the proxy answers with an error of its own.
	ReasonProxyError Reason = "ProxyError"
	// ReasonTargetUnreachable: the proxy says that it can't reach the target; of a
	// control request, that this machine can't.
	ReasonTargetUnreachable Reason = "TargetUnreachable"
	// ReasonTargetError: the target answers with a status that isn't expected.
	ReasonTargetError Reason = "TargetError"
	// ReasonTargetDenied: the target's URL is malformed or leads where no probe may
	// go.
	ReasonTargetDenied Reason = "TargetDenied"
	// ReasonProxyDenied: the proxy's address is one that no probe may connect to.
	ReasonProxyDenied Reason = "ProxyDenied"
	// ReasonTimeout: connected, but no whole answer within the time.
	ReasonTimeout Reason = "Timeout"
	// ReasonReset: the connection was reset before the answer was complete.
	ReasonReset Reason = "Reset"
	// ReasonNoAnswer: the connection was closed without one byte of an answer.
	ReasonNoAnswer Reason = "NoAnswer"
	// ReasonTruncated: the answer broke off.
	ReasonTruncated Reason = "Truncated"
	// ReasonBadAnswer: what came isn't the proxy's protocol, or is too large.
	ReasonBadAnswer Reason = "BadAnswer"
	// ReasonTunnelBroken: the proxy granted a tunnel that doesn't lead to the
	// target.
	ReasonTunnelBroken Reason = "TunnelBroken"
	// ReasonIntercepted: behind the tunnel is somebody without a valid certificate
	// for the target.
	ReasonIntercepted Reason = "Intercepted"
	// ReasonAltered: the answer isn't what the judge sent.
	ReasonAltered Reason = "Altered"
	// ReasonStale: an answer that must not be stored came from a cache.
	ReasonStale Reason = "Stale"
	// ReasonOpenProxy: the proxy has credentials and serves without them, or with
	// wrong ones.
	ReasonOpenProxy Reason = "OpenProxy"
	// ReasonLocalError: this machine is out of sockets or ports.
	ReasonLocalError Reason = "LocalError"
	// ReasonCanceled: the caller gave up before there was an outcome.
	ReasonCanceled Reason = "Canceled"
)

// Values of Outcome.Anonymity; empty is unknown.
const (
	// AnonymityTransparent: the target is told the client's address.
	AnonymityTransparent = "transparent"
	// AnonymityAnonymous: the target is told that there is a proxy, not for whom.
	AnonymityAnonymous = "anonymous"
	// AnonymityElite: the target is told nothing.
	AnonymityElite = "elite"
)

// Outcome is what one request came to.
type Outcome struct {
	Fault  Fault
	Reason Reason
	// ExitIP is the source address that the judge saw, canonical; empty without a
	// judge. It is the proxy's word if the target isn't https.
	ExitIP string
	// Anonymity is transparent, anonymous or elite; empty is unknown.
	Anonymity string
	// Cached: the answer came from a cache.
	Cached bool
	// Latency is the time from the start to the end of the answer or failure;
	// ConnectLatency that of name lookup and TCP connection.
	Latency, ConnectLatency time.Duration
	// Detail is for logs: one short line without secrets, and without a word that
	// the proxy chose.
	Detail string
}
