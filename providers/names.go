// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Key identifies one create for all time. The place is part of it, so that a spec that moves can never be answered with
// a machine left in the old place.
type Key struct {
	InstallationID string
	ProxyUID       string
	Incarnation    int64
	Account        string
	Zone           string // empty where the account has no zones
}

// nameLength keeps instance names far below the shortest limit of the clouds we know (63, RFC 1035).
const nameLength = 24

// Name derives the instance's name: "px-", 24 lower-case letters and digits. It is fixed in length, because truncated
// names collide (cloudfoundry/bosh-bootloader#681), and says nothing about its owner, because hosters block by pattern
// (scrapoxy/scrapoxy#159). Equal keys give equal names in every version of the operator.
func (k Key) Name() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		k.InstallationID, k.ProxyUID, strconv.FormatInt(k.Incarnation, 10), k.Account, k.Zone,
	}, "\x00")))
	enc := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	return "px-" + strings.ToLower(enc[:nameLength])
}

// InstallationID names one operator among all that may share a cloud account. It survives a reinstall: it comes from the
// cluster (the UID of its kube-system namespace) and the operator's --instance flag.
func InstallationID(clusterUID, instance string) string {
	sum := sha256.Sum256([]byte(clusterUID + "\x00" + instance))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:16]
}

// Ref is the full locator of an instance: an account and a path that the account's provider understands, in which the
// zone is contained where there are zones. It is all that Get and Delete need, so that they find the machine even after
// the spec names another place.
type Ref struct {
	Account string
	Path    string // "PROJECT/ZONE/NAME", "NAMESPACE/NAME"
}

// IsZero reports whether the Ref names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// String returns the providerID: ACCOUNT://PATH.
func (r Ref) String() string {
	if r.IsZero() {
		return ""
	}
	return r.Account + "://" + r.Path
}

// ParseRef reads what String wrote. The empty string is the zero Ref.
func ParseRef(s string) (Ref, error) {
	if s == "" {
		return Ref{}, nil
	}
	account, path, ok := strings.Cut(s, "://")
	if !ok || account == "" || path == "" || strings.ContainsAny(path, " \t\r\n") || url.PathEscape(account) != account {
		return Ref{}, fmt.Errorf("providerID %q is not ACCOUNT://PATH", s)
	}
	return Ref{Account: account, Path: path}, nil
}
