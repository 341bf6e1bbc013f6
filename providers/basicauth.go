// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"strings"
	"unicode"
)

// BasicAuth reports whether the operator's own forward proxy will accept the credentials of the request: HTTP's Basic
// authentication must be able to carry them. None at all are fine. One line break at the end is the editor's, and no part of
// them.
func (r CreateRequest) BasicAuth() bool {
	if r.Username == "" && r.Password == "" {
		return true
	}
	for _, s := range []string{r.Username, r.Password} {
		s = strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r")
		if s == "" || strings.ContainsFunc(s, unicode.IsControl) {
			return false
		}
	}
	return !strings.Contains(r.Username, ":")
}
