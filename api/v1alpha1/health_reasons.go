// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The reasons of the condition Healthy, and of Ready with it, when requests don't get through. Every one of them is explained
// in docs/states.md.
const (
	// ReasonConnectRefused: nobody listens on the proxy's port.
	ReasonConnectRefused = "ConnectRefused"
	// ReasonConnectTimeout: the proxy's port can't be reached in time.
	ReasonConnectTimeout = "ConnectTimeout"
	// ReasonUnreachable: the network has no way to the proxy's host.
	ReasonUnreachable = "Unreachable"
	// ReasonDNSError: the proxy's host name has no address.
	ReasonDNSError = "DNSError"
	// ReasonTLSError: TLS with the proxy itself doesn't succeed.
	ReasonTLSError = "TLSError"
	// ReasonAuthRequired: the proxy asks for credentials, and spec names none.
	ReasonAuthRequired = "AuthRequired"
	// ReasonAuthFailed: the proxy refuses the credentials of the Secret.
	ReasonAuthFailed = "AuthFailed"
	// ReasonRefused: a rule of the proxy forbids the request.
	ReasonRefused = "Refused"
	// ReasonProxyError: the proxy answers with an error of its own.
	ReasonProxyError = "ProxyError"
	// ReasonTargetUnreachable: the proxy says that it can't reach the target.
	ReasonTargetUnreachable = "TargetUnreachable"
	// ReasonTimeout: the proxy doesn't answer in time.
	ReasonTimeout = "Timeout"
	// ReasonReset: the proxy resets the connection.
	ReasonReset = "Reset"
	// ReasonNoAnswer: the proxy closes the connection without an answer.
	ReasonNoAnswer = "NoAnswer"
	// ReasonTruncated: the proxy breaks off its answer.
	ReasonTruncated = "Truncated"
	// ReasonBadAnswer: what answers there doesn't speak the proxy's protocol.
	ReasonBadAnswer = "BadAnswer"
	// ReasonTunnelBroken: the proxy grants a tunnel that leads nowhere.
	ReasonTunnelBroken = "TunnelBroken"
	// ReasonIntercepted: somebody without the target's certificate answers at the end of the tunnel.
	ReasonIntercepted = "Intercepted"
	// ReasonAltered: the proxy alters what it passes on.
	ReasonAltered = "Altered"
	// ReasonStale: the proxy answers from a cache what must not be stored.
	ReasonStale = "Stale"
	// ReasonOpenProxy: the proxy serves without credentials, or with wrong ones, though it is to ask for them.
	ReasonOpenProxy = "OpenProxy"
	// ReasonProxyDenied: the proxy's address is one that the operator doesn't connect to, such as a loopback or link-local one.
	ReasonProxyDenied = "ProxyDenied"
	// ReasonTargetError: the target answers with a status that isn't expected.
	ReasonTargetError = "TargetError"
	// ReasonTargetDenied: the target's URL leads where the operator doesn't probe, such as a loopback or link-local address.
	ReasonTargetDenied = "TargetDenied"
	// ReasonLocalError: the operator's own machine is out of sockets or ports.
	ReasonLocalError = "LocalError"
	// ReasonCanceled: the probe was broken off.
	ReasonCanceled = "Canceled"
)
