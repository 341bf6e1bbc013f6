// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxHeader and maxBody bound what is read of an answer.
	maxHeader = 64 << 10
	maxBody   = 64 << 10
	// maxInformational is how many 1xx answers may come first, as in net/http.
	maxInformational = 5
)

var errTooLarge = errors.New("answer is too large")

// limited reads at most left bytes and keeps the first error of the source.
type limited struct {
	source io.Reader
	left   int
	last   error
}

// Read implements io.Reader.
func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		l.last = errTooLarge
		return 0, errTooLarge
	}
	n, err := l.source.Read(b[:min(len(b), l.left)])
	l.left -= n
	if err != nil && l.last == nil { // after a reset the next error is a mere io.EOF
		l.last = err
	}
	return n, err
}

// readHeader reads the header of the final answer to a request of the given
// method.
func (x *exchange) readHeader(ctx context.Context, method string) (*http.Response, error) {
	for range maxInformational + 1 {
		first, err := x.in.Peek(1)
		if err != nil {
			return nil, x.broken(ctx, err, x.from.last, false)
		}
		if first[0] != 'H' {
			return nil, x.bad("not HTTP")
		}
		res, err := http.ReadResponse(x.in, &http.Request{Method: method})
		if err != nil {
			return nil, x.broken(ctx, err, x.from.last, true)
		}
		if res.StatusCode >= http.StatusOK || res.StatusCode == http.StatusSwitchingProtocols {
			return res, nil
		}
		_ = res.Body.Close() // has none
	}
	return nil, x.bad("too many informational answers")
}

// judge reads the answer and finds out whose it is and whether it is good.
func (x *exchange) judge(ctx context.Context) error {
	res, err := x.readHeader(ctx, http.MethodGet)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // of a connection that ends anyway
	if err := x.judgeHeader(res); err != nil {
		return err
	}
	x.from.left = 2 * maxBody // the chunks' own bytes come on top
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return x.broken(ctx, err, x.from.last, true)
	}
	if x.target.Judge {
		if err := x.verify(res.Header, body); err != nil {
			return err
		}
	}
	if x.unasked {
		return byProxy(ReasonOpenProxy, "the proxy doesn't ask for the credentials that it has")
	}
	return nil
}

// judgeHeader decides by status and header.
func (x *exchange) judgeHeader(res *http.Response) error {
	code := res.StatusCode
	fromJudge := res.Header.Get(judgeHeader) == judgeValue
	// In a tunnel or without a proxy nobody but the target answers.
	if x.proxy != nil && x.stage == atProxy {
		_, own := ownError(res)
		stranger := !fromJudge && !x.isExpected(code) && (x.target.Judge || isGatewayError(code))
		if own || stranger || code == http.StatusProxyAuthRequired {
			return x.refused(res)
		}
	}
	if !x.isExpected(code) {
		return byTarget(ReasonTargetError, status(res))
	}
	if x.target.Judge && !fromJudge {
		return byProxy(ReasonAltered, "the answer isn't the judge's")
	}
	return nil
}

// isGatewayError tells whether a status speaks of a failure behind who sent it.
func isGatewayError(code int) bool {
	return code >= http.StatusBadGateway && code <= http.StatusGatewayTimeout
}

func (x *exchange) isExpected(code int) bool {
	if code == http.StatusProxyAuthRequired {
		return false
	}
	if len(x.target.ExpectStatus) == 0 {
		return code >= http.StatusOK && code < http.StatusBadRequest
	}
	return slices.Contains(x.target.ExpectStatus, code)
}

// refused is a proxy's own answer other than yes.
func (x *exchange) refused(res *http.Response) *failure {
	code := res.StatusCode
	if code == http.StatusProxyAuthRequired || code == http.StatusUnauthorized { // tinyproxy's word for a wrong password
		if x.proxy.hasCredentials() {
			return byProxy(ReasonAuthFailed, status(res))
		}
		return byProxy(ReasonAuthRequired, status(res))
	}
	if reason, own := ownError(res); own {
		return byProxy(reason, status(res))
	}
	if code >= http.StatusBadRequest && code < http.StatusInternalServerError {
		return byProxy(ReasonRefused, status(res))
	}
	return byProxy(ReasonProxyError, status(res))
}

func status(res *http.Response) string { return "status " + strconv.Itoa(res.StatusCode) }

// ownError tells what a proxy says of an answer that it made itself. Via tells
// nothing: squid and others add it to both kinds.
func ownError(res *http.Response) (Reason, bool) {
	if res.StatusCode < http.StatusBadRequest {
		return "", false
	}
	if kind, ok := proxyStatusError(res.Header); ok {
		return proxyStatusReason(kind), true
	}
	if kind := res.Header.Get("X-Squid-Error"); kind != "" {
		return squidReason(kind), true
	}
	if server := res.Header.Get("Server"); strings.HasPrefix(server, "tinyproxy/") {
		switch {
		case strings.HasSuffix(res.Status, "Unable to connect"):
			return ReasonTargetUnreachable, true
		case res.StatusCode < http.StatusInternalServerError:
			return ReasonRefused, true
		default:
			return ReasonProxyError, true
		}
	}
	return "", false
}

// proxyStatusError finds the error of the nearest proxy, the last in the list (RFC
// 9209). One further away, such as a CDN, is part of the target.
func proxyStatusError(h http.Header) (string, bool) {
	lines := h.Values("Proxy-Status")
	if len(lines) == 0 {
		return "", false
	}
	last := lines[len(lines)-1]
	for {
		// A comma may be in quotes; the list's order still puts the last one last.
		_, after, more := strings.Cut(last, ",")
		if !more || strings.Count(last[:len(last)-len(after)], `"`)%2 != 0 {
			break
		}
		last = after
	}
	_, kind, found := strings.Cut(last, "error=")
	if !found {
		return "", false
	}
	if end := strings.IndexAny(kind, "; ,"); end >= 0 {
		kind = kind[:end]
	}
	return kind, true
}

// proxyStatusReason sorts the error types of RFC 9209, 2.3.
func proxyStatusReason(kind string) Reason {
	switch kind {
	case "http_request_denied", "destination_ip_prohibited", "http_request_error":
		return ReasonRefused
	case "dns_timeout", "dns_error", "destination_not_found", "destination_unavailable", "destination_ip_unroutable",
		"connection_refused", "connection_terminated", "connection_timeout", "connection_read_timeout", "connection_write_timeout",
		"tls_protocol_error", "tls_certificate_error", "tls_alert_received",
		"http_response_incomplete", "http_response_timeout", "http_protocol_error":
		return ReasonTargetUnreachable
	default:
		return ReasonProxyError
	}
}

// squidReason sorts the names of squid's error pages.
func squidReason(kind string) Reason {
	kind, _, _ = strings.Cut(kind, " ")
	switch kind {
	case "ERR_ACCESS_DENIED", "ERR_FORWARDING_DENIED", "ERR_INVALID_REQ", "ERR_INVALID_URL", "ERR_UNSUP_REQ", "ERR_TOO_BIG":
		return ReasonRefused
	case "ERR_DNS_FAIL", "ERR_CONNECT_FAIL", "ERR_READ_TIMEOUT", "ERR_READ_ERROR", "ERR_WRITE_ERROR", "ERR_ZERO_SIZE_OBJECT",
		"ERR_LIFETIME_EXP", "ERR_INVALID_RESP", "ERR_SECURE_CONNECT_FAIL":
		return ReasonTargetUnreachable
	default:
		return ReasonProxyError
	}
}
