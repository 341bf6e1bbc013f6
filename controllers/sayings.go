// SPDX-License-Identifier: Apache-2.0

package controllers

import "github.com/proxy-operator/proxy-operator/api/v1alpha1"

// sayings puts the reasons of probes into words, for messages of conditions. They are fixed: no address, no status code, no
// word of a proxy.
func sayings() map[string]string {
	return map[string]string{
		v1alpha1.ReasonConnectRefused:    "nobody listens on the proxy's port",
		v1alpha1.ReasonConnectTimeout:    "the proxy's port can't be reached in time",
		v1alpha1.ReasonUnreachable:       "the network has no way to the proxy's host",
		v1alpha1.ReasonDNSError:          "the proxy's host name has no address",
		v1alpha1.ReasonTLSError:          "TLS with the proxy itself doesn't succeed",
		v1alpha1.ReasonAuthRequired:      "the proxy asks for credentials, and spec names none",
		v1alpha1.ReasonAuthFailed:        "the proxy refuses the credentials of the Secret",
		v1alpha1.ReasonRefused:           "the proxy refuses the request, or it isn't a proxy",
		v1alpha1.ReasonProxyError:        "the proxy answers with an error of its own",
		v1alpha1.ReasonTargetUnreachable: "the proxy says that it can't reach the target",
		v1alpha1.ReasonTimeout:           "the proxy doesn't answer in time",
		v1alpha1.ReasonReset:             "the proxy resets the connection",
		v1alpha1.ReasonNoAnswer:          "the proxy closes the connection without an answer",
		v1alpha1.ReasonTruncated:         "the proxy breaks off its answer",
		v1alpha1.ReasonBadAnswer:         "what answers there doesn't speak the proxy's protocol",
		v1alpha1.ReasonTunnelBroken:      "the proxy grants a tunnel that leads nowhere",
		v1alpha1.ReasonIntercepted:       "somebody without the target's certificate answers at the end of the tunnel",
		v1alpha1.ReasonAltered:           "the proxy alters what it passes on",
		v1alpha1.ReasonStale:             "the proxy answers from a cache what must not be stored",
		v1alpha1.ReasonOpenProxy:         "the proxy serves without credentials, or with wrong ones, though it is to ask for them",
		v1alpha1.ReasonProxyDenied:       "the proxy's address is one that the operator doesn't connect to, such as a loopback or link-local one; write another, or ask for --health-deny-cidr",
		v1alpha1.ReasonTargetError:       "the target answers with a status that isn't expected",
		v1alpha1.ReasonTargetDenied:      "the target's URL leads where the operator doesn't probe, such as a loopback or link-local address; write another, or ask for --health-deny-cidr",
		v1alpha1.ReasonLocalError:        "the operator's own machine is out of sockets or ports",
		v1alpha1.ReasonCanceled:          "the probe was broken off",
	}
}
