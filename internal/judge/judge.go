// SPDX-License-Identifier: Apache-2.0

// Package judge is the HTTP server that tells a request what it looked like from
// the other end: its source address, the headers that a proxy left in it, and a
// nonce by which the answer is known to be one to this request. It keeps no state
// and writes down no addresses.
package judge

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// Header and Value are in every answer of a judge, by which a page of somebody
	// else is known.
	Header = "X-Judge"
	// Value is what Header holds.
	Value = "proxy-operator"
	// NonceHeader carries the nonce where the URL must stay the same: an answer that
	// may be cached.
	NonceHeader = "X-Nonce"

	maxNonce  = 64
	maxValues = 8   // of one header that are echoed
	maxValue  = 256 // bytes of each
	redacted  = "redacted"
)

// Answer is the JSON in the body of every answer.
type Answer struct {
	// Source is the address that the request came from.
	Source string `json:"source"`
	// Nonce is that of the request: ?nonce= or else the header X-Nonce.
	Nonce string `json:"nonce"`
	// Headers are those of the request that tell of a proxy, cut where they are
	// long. Credentials meant for the proxy are told of, not shown.
	Headers map[string][]string `json:"headers"`
	// Self: one of Headers holds an address that the request gave as ?self=.
	Self bool `json:"self"`
}

// telling are the headers that proxies are known to add, in canonical form.
func telling() []string {
	return []string{
		"Via", "Forwarded", "X-Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server",
		"X-Real-Ip", "X-Client-Ip", "Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Cluster-Client-Ip", "X-Originating-Ip",
		"X-Remote-Ip", "X-Remote-Addr", "Proxy-Connection", "X-Proxy-Connection", "X-Proxy-Id", "X-Tinyproxy", "X-Bluecoat-Via",
		"Proxy-Authorization",
	}
}

// Handler answers GET and HEAD on any path. The query: nonce (at most 64 letters,
// digits, - and _), self (addresses of the client, to look for in the headers),
// cache=1 (the answer may be stored for a minute; otherwise it must not be).
func Handler() http.Handler {
	names := telling()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(Header, Value)
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		query := r.URL.Query()
		nonce := query.Get("nonce")
		if nonce == "" {
			nonce = r.Header.Get(NonceHeader)
		}
		source, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !isNonce(nonce) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		headers := proxyHeaders(r.Header, names)
		body, err := json.Marshal(Answer{
			Source: source.Addr().Unmap().String(), Nonce: nonce, Headers: headers, Self: tells(headers, query["self"]),
		})
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if query.Get("cache") == "1" {
			w.Header().Set("Cache-Control", "public, max-age=60")
		}
		write(w, body)
	})
}

// write sends the body with its digest (RFC 9530), so that a change on the way is
// seen.
func write(w http.ResponseWriter, body []byte) {
	sum := sha256.Sum256(body)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	_, _ = w.Write(body) // a client that has gone needs no answer
}

// proxyHeaders are the named headers that are there.
func proxyHeaders(h http.Header, names []string) map[string][]string {
	found := map[string][]string{}
	for _, name := range names {
		for _, value := range h[name] {
			if len(found[name]) == maxValues {
				break
			}
			if name == "Proxy-Authorization" {
				value = redacted
			}
			found[name] = append(found[name], value[:min(len(value), maxValue)])
		}
	}
	return found
}

// tells finds out whether one of the addresses is in one of the headers, in
// whatever way it is written.
func tells(headers map[string][]string, addresses []string) bool {
	wanted := map[netip.Addr]bool{}
	for _, a := range addresses {
		if address, err := netip.ParseAddr(a); err == nil {
			wanted[address.Unmap()] = true
		}
	}
	for _, values := range headers {
		for _, value := range values {
			for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(` ,;="[]()`, r) }) {
				if address, ok := addressIn(word); ok && wanted[address] {
					return true
				}
			}
		}
	}
	return false
}

// addressIn reads an address, or one with a port.
func addressIn(word string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(word); err == nil {
		return a.Unmap(), true
	}
	if a, err := netip.ParseAddrPort(word); err == nil {
		return a.Addr().Unmap(), true
	}
	return netip.Addr{}, false
}

func isNonce(s string) bool {
	if len(s) > maxNonce {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
