// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
)

// The judge's words on the wire. Package judge writes them; a test holds the two
// together.
const (
	judgeHeader  = "X-Judge"
	judgeValue   = "proxy-operator"
	nonceHeader  = "X-Nonce"
	digestHeader = "Content-Digest"
)

// judgement is the judge's answer.
type judgement struct {
	Source  string              `json:"source"`
	Nonce   string              `json:"nonce"`
	Headers map[string][]string `json:"headers"`
	Self    bool                `json:"self"`
}

// verify finds out whether the answer is the judge's, unchanged and to this very
// request, and takes from it what it tells.
func (x *exchange) verify(h http.Header, body []byte) error {
	sum := sha256.Sum256(body)
	if h.Get(digestHeader) != "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":" {
		return byProxy(ReasonAltered, "the body doesn't match its digest")
	}
	var j judgement
	if err := json.Unmarshal(body, &j); err != nil {
		return byProxy(ReasonAltered, "the body isn't a judge's")
	}
	source, err := netip.ParseAddr(j.Source)
	if err != nil {
		return byProxy(ReasonAltered, "the body tells no address")
	}
	if j.Nonce != x.nonce {
		x.out.Cached = true
		if x.cacheable() {
			return nil
		}
		return byProxy(ReasonStale, "the answer is one to another request")
	}
	x.out.ExitIP = source.Unmap().String()
	switch {
	case x.proxy == nil:
	case j.Self:
		x.out.Anonymity = AnonymityTransparent
	case len(j.Headers) > 0:
		x.out.Anonymity = AnonymityAnonymous
	default:
		x.out.Anonymity = AnonymityElite
	}
	return nil
}
