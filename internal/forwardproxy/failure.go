// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
)

// proxyName is who speaks in the Proxy-Status header (RFC 9209), by which a
// client tells the proxy's own answers from an origin's.
const proxyName = "proxy-operator"

// kindRequestError is RFC 9209's word for a request that is wrong.
const kindRequestError = "http_request_error"

// failure is an answer that the proxy gives by itself. text must not contain
// anything that the client doesn't know, such as addresses of resolvers.
type failure struct {
	status     int
	kind, text string
}

func unauthenticated() failure {
	return failure{http.StatusProxyAuthRequired, "http_request_denied", "credentials are missing or wrong"}
}

func overloaded() failure {
	return failure{http.StatusServiceUnavailable, "connection_limit_reached", "too many client connections"}
}

func shuttingDown() failure {
	return failure{http.StatusServiceUnavailable, "proxy_internal_error", "the proxy is shutting down"}
}

func badRequest(err error) failure {
	return failure{http.StatusBadRequest, kindRequestError, err.Error()}
}

// rule maps errors to a failure.
type rule struct {
	match func(error) bool
	failure
}

// classify finds out what an error on the way to or from an origin means. The
// first rule that matches wins.
func classify(err error) failure {
	for _, rule := range rules() {
		if rule.match(err) {
			return rule.failure
		}
	}
	return failure{http.StatusBadGateway, "http_protocol_error", "the origin's answer is not valid HTTP"}
}

func rules() []rule {
	const gateway, timeout = http.StatusBadGateway, http.StatusGatewayTimeout
	return []rule{
		{as[*requestBodyError], failure{http.StatusBadRequest, kindRequestError, "the request body broke off or is malformed"}},
		{is(context.Canceled), failure{http.StatusBadRequest, kindRequestError, "the request was given up by the client"}},
		{isDNSTimeout, failure{timeout, "dns_timeout", "the name lookup timed out"}},
		{as[*net.DNSError], failure{gateway, "dns_error", "the name can't be resolved"}},
		{is(errDenied), failure{http.StatusForbidden, "destination_ip_prohibited", "this proxy doesn't connect to addresses of its own machine and link"}},
		{is(syscall.ECONNREFUSED), failure{gateway, "connection_refused", "the origin refused the connection"}},
		{is(syscall.EHOSTUNREACH, syscall.ENETUNREACH), failure{gateway, "destination_ip_unroutable", "there is no route to the origin"}},
		{
			is(syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EADDRNOTAVAIL),
			failure{http.StatusServiceUnavailable, "proxy_internal_error", "the proxy is out of sockets"},
		},
		{isDialTimeout, failure{timeout, "connection_timeout", "connecting to the origin timed out"}},
		{isDial, failure{gateway, "destination_unavailable", "the origin can't be connected to"}},
		{as[*tls.CertificateVerificationError], failure{gateway, "tls_certificate_error", "the origin's certificate can't be verified"}},
		{as[tls.AlertError], failure{gateway, "tls_alert_received", "the origin refused the TLS handshake"}},
		{as[tls.RecordHeaderError], failure{gateway, "tls_protocol_error", "the origin doesn't speak TLS"}},
		{isTimeout, failure{timeout, "http_response_timeout", "the origin didn't answer in time"}},
		{
			is(io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed),
			failure{gateway, "connection_terminated", "the origin closed the connection before it answered"},
		},
	}
}

func as[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func isDNSTimeout(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsTimeout
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func isDialTimeout(err error) bool { return isDial(err) && isTimeout(err) }

// fail answers a request whose way to the origin ended in an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, target string, err error) {
	f := classify(err)
	f.text += " (" + target + ")"
	s.log.Debug("request failed", "method", r.Method, "target", target, "error", err)
	s.refuse(w, r, f)
}

// refuse answers a request by the proxy itself.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f failure) {
	header := w.Header()
	header.Set("Proxy-Status", proxyName+"; error="+f.kind)
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	// What follows a refused CONNECT may be the tunnel's first bytes, which must
	// not be taken for a request.
	if r.Method == http.MethodConnect || isExcess(r.Context()) {
		header.Set("Connection", "close")
	}
	w.WriteHeader(f.status)
	// A client that has gone needs no answer.
	_, _ = io.WriteString(w, proxyName+": "+f.text+"\n")
}
