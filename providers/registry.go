// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"maps"
	"slices"
	"strings"
)

// Account is one entry of the operator's configuration: a place where machines can be made, by name.
type Account struct {
	Name string
	Type string // "local", "kubernetes", "gcp"
	// AllowedNamespaces may use the account; nil: all. The configuration file can't have an empty list, which would read as
	// nobody.
	AllowedNamespaces []string
	// Zones of the account in order of preference; empty where it has none.
	Zones []string
	// Fingerprint changes with the values that the configuration file has for the account, not with comments, layout or
	// order. It is a plain hash: the file holds no secrets.
	Fingerprint string
	Limits      Limits
	// Orphans is what the collector does in this account; it is never empty in a registry that ParseConfig made.
	Orphans  OrphanMode
	Provider Provider
}

// Allows reports whether Proxies of the namespace may use the account.
func (a Account) Allows(namespace string) bool {
	return len(a.AllowedNamespaces) == 0 || slices.Contains(a.AllowedNamespaces, namespace)
}

// Registry holds the accounts by name. It is built once, in cmd, and never changed.
type Registry map[string]Account

// Names lists the accounts in order, as "local, gcp-eu"; "none" if there are none. It is part of a status message, so
// it must be the same from call to call.
func (r Registry) Names() string {
	if len(r) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(r)), ", ")
}
