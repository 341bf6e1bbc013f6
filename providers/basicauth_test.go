// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCredentialsThatBasicAuthenticationCanCarry(t *testing.T) {
	cases := map[string]struct {
		username, password string
		want               bool
	}{
		"none":                            {"", "", true},
		"both":                            {"crawler", "s3cret", true},
		"a line break of the editor's":    {"crawler\r\n", "s3cret\n", true},
		"a colon in the password":         {"crawler", "a:b", true},
		"a colon in the user name":        {"a:b", "s3cret", false},
		"no password":                     {"crawler", "", false},
		"no user name":                    {"", "s3cret", false},
		"a line break alone":              {"crawler", "\n", false},
		"a line break in the middle":      {"crawler", "a\nb", false},
		"a control character in the name": {"cra\x00wler", "s3cret", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, CreateRequest{Username: c.username, Password: c.password}.BasicAuth())
		})
	}
}
