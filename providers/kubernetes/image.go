// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"strings"
	"unicode"

	"github.com/distribution/reference"
)

const likeThis = ", like registry.example.com/squid:6.12"

// ImageProblem tells what to write instead of a name that can't be a container image's, as a phrase that begins with "write"; empty:
// it can be one. Kubelets read names by the same grammar.
func ImageProblem(name string) string {
	_, err := reference.ParseNormalizedNamed(name)
	if err == nil {
		return ""
	}
	_, lower := reference.ParseNormalizedNamed(strings.ToLower(name))
	switch {
	case strings.Contains(name, "://"):
		return "write it without the scheme" + likeThis
	case strings.ContainsFunc(name, unicode.IsSpace):
		return "write it without spaces" + likeThis
	case strings.HasSuffix(name, ":"):
		return "write a tag after the colon, or leave the colon out" + likeThis
	case strings.HasSuffix(name, "/"):
		return "write the image's name after the last slash" + likeThis
	case lower == nil:
		return "write the repository in lower case; only registry and tag may have upper-case letters"
	default:
		return "write the name of a container image" + likeThis
	}
}
