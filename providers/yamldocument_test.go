// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestAFileThatIsNoYAML(t *testing.T) {
	const tab, two = "is indented with a tab; use spaces", "one YAML document is expected; "
	cases := map[string]struct {
		file string
		line int
		want string
	}{
		"a tab before a field":                {lines("accounts:", "- name: a", "\ttype: local"), 3, tab},
		"a tab before the first field":        {lines("\taccounts: []"), 1, tab},
		"a tab before an item":                {lines("accounts:", "\t- name: a", "\t  type: local"), 2, tab},
		"a tab after an item's hyphen":        {lines("accounts:", "-\tname: a", "  type: local"), 2, tab},
		"a tab after spaces":                  {lines("accounts:", "- name: a", "  type: local", "  \tlocal: {}"), 4, tab},
		"a tab far below":                     {lines("accounts:", "- name: a", "  type: local", "", "# c", "  local:", "\tdir: /x", "- name: b", "  type: local"), 7, tab},
		"a tab before a text's line":          {lines("accounts:", "- name: a", "  local:", "    dir: |", "\tx"), 5, tab},
		"a tab in a text that goes on":        {lines("accounts:", "- name: a", "  local:", "    dir: x", "\ty", "  type: local"), 5, tab},
		"a tab after an error":                {lines("accounts:", "- name: a: b", "\ttype: local"), 2, "mapping values are not allowed in this context"},
		"too little indentation":              {lines("accounts:", "- name: a", " type: local"), 3, "did not find expected "},
		"too much indentation":                {lines("accounts:", "- name: a", "   type: local"), 3, "mapping values are not allowed in this context"},
		"two values on the first line":        {lines("accounts: a: b"), 1, "mapping values are not allowed in this context"},
		"a colon forgotten":                   {lines("a: [1,", " 2]", "b: 1", "c 2", "d: 4"), 4, "could not find expected ':'"},
		"a bracket that isn't closed":         {lines("accounts: ["), 1, "did not find expected node content"},
		"a bracket that isn't closed, later":  {lines("a: [1,", " 2]", "b: [1", "c: 2"), 3, "did not find expected ',' or ']'"},
		"a bracket closed but not opened":     {lines("# c", "accounts: }"), 2, "did not find expected node content"},
		"a quote that isn't closed":           {lines("accounts:", "- name: a", "- name: \"a", "  type: local", "- name: b"), 3, "found unexpected end of stream"},
		"a character that starts nothing":     {lines("accounts:", "- name: @a"), 2, "found character that cannot start any token"},
		"an alias of nothing":                 {lines("accounts:", "- &b {name: a}", "- *a", "- *b"), 3, "unknown anchor 'a' referenced"},
		"a zero byte":                         {lines("accounts:", "- name: a\x00b", "  type: local"), 2, "control characters are not allowed"},
		"not UTF-8":                           {lines("accounts:", "# \xc3(", "- a"), 2, "is not UTF-8 text; save it as UTF-8"},
		"UTF-16":                              {"\xff\xfea\x00:\x00", 1, "is not UTF-8 text; save it as UTF-8"},
		"Windows line ends":                   {"accounts:\r\n- name: a\r\n type: local\r\n", 3, "did not find expected "},
		"no end of the last line":             {"accounts:\n- name: a\n- @", 3, "found character that cannot start any token"},
		"an unknown version":                  {lines("%YAML 9.9", "---", "accounts: []"), 1, "found incompatible YAML document"},
		"two documents":                       {lines("accounts: []", "---", "accounts: []"), 2, two},
		"two documents with comments between": {lines("accounts: []", "# c", "", "---", "# d", "accounts: []"), 4, two},
		"a second, empty document":            {lines("accounts: []", "---"), 2, two},
		"a second document that is no YAML":   {lines("accounts: []", "---", "a: [", "---"), 3, two},
		"garbage after the document":          {lines("accounts: []", "...", "# c", "[", "..."), 4, two},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reg, err := providers.ParseConfig([]byte(c.file), types())
			require.Nil(t, reg)
			require.ErrorContains(t, err, c.want)
			require.Contains(t, err.Error(), fmt.Sprintf("operator configuration: line %d: the document: ", c.line))
			require.NotContains(t, err.Error(), "yaml:")
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestTheLineOfASyntaxErrorIsFoundInALargeFile(t *testing.T) {
	account := lines("- name: a", "  type: local", "  allowedNamespaces: [a,", "    b]")
	file := "accounts:\n" + strings.Repeat(account, 500) + "- name: @\n" + strings.Repeat(account, 500)
	_, err := providers.ParseConfig([]byte(file), types())
	require.EqualError(t, err, "operator configuration: line 2002: the document: found character that cannot start any token")
}

func TestFingerprint(t *testing.T) {
	file := lines(
		"accounts:",
		"- name: a",
		"  type: gcp",
		"  allowedNamespaces: [crawl, scrape]",
		"  gcp:",
		"    project: p1",
		"    zones: [b, a]",
		"- {name: here, type: local}",
	)
	same := map[string]string{
		"the same file":   file,
		"comments":        lines("# one", "accounts:", "- name: a # two", "  type: gcp", "  # three", "  allowedNamespaces: [crawl, scrape]", "  gcp:", "    project: p1", "    # four", "    zones: [b, a]", "# five"),
		"order of fields": lines("accounts:", "- gcp:", "    zones: [b, a]", "    project: p1", "  allowedNamespaces: [crawl, scrape]", "  type: gcp", "  name: a"),
		"layout":          lines("accounts:", "  -   name:   a", "", "      type: gcp", "      allowedNamespaces:", "        - crawl", "        - scrape", "      gcp: {project: p1, zones:", "        [b,", "  a]}"),
		"quotes":          lines("accounts:", "- name: 'a'", "  type: \"gcp\"", "  'allowedNamespaces': [crawl, 'scrape']", "  gcp:", "    project: \"\\x701\"", "    zones: [b, a]"),
		"JSON":            `{"accounts": [{"name": "a", "type": "gcp", "allowedNamespaces": ["crawl", "scrape"], "gcp": {"project": "p1", "zones": ["b", "a"]}}]}`,
		"null fields":     strings.Replace(file, "p1\n", "p1\n    maxInstances: ~\n", 1),
		"other accounts":  strings.Replace(file, "accounts:\n", "accounts:\n- {name: b, type: local, local: {dir: /x}}\n", 1),
		"its place":       lines("accounts:", "- {name: here, type: local}") + strings.TrimSuffix(strings.TrimPrefix(file, "accounts:\n"), "- {name: here, type: local}\n"),
	}
	other := map[string]string{
		"a value":                     strings.Replace(file, "p1", "p2", 1),
		"a field more":                strings.Replace(file, "p1\n", "p1\n    maxInstances: 0\n", 1),
		"a field less":                strings.Replace(file, "    zones: [b, a]\n", "", 1),
		"the order of preference":     strings.Replace(file, "[b, a]", "[a, b]", 1),
		"two items made one":          strings.Replace(file, "[b, a]", "['b, a']", 1),
		"the namespaces":              strings.Replace(file, "[crawl, scrape]", "[crawl]", 1),
		"the name":                    strings.Replace(file, "name: a", "name: c", 1),
		"a text that reads as number": strings.Replace(file, "p1", "0x10", 1),
		"a text that reads as same":   strings.Replace(file, "p1", "16", 1),
	}
	reg, err := providers.ParseConfig([]byte(file), types())
	require.NoError(t, err)
	want := reg["a"].Fingerprint
	require.Regexp(t, `^[0-9a-f]{16}$`, want)
	for name, f := range same {
		t.Run(name+" do not count", func(t *testing.T) {
			reg, err := providers.ParseConfig([]byte(f), types())
			require.NoError(t, err)
			require.Equal(t, want, reg["a"].Fingerprint)
		})
	}
	seen := map[string]string{want: "the file"}
	for name, f := range other {
		t.Run(name+" counts", func(t *testing.T) {
			reg, err := providers.ParseConfig([]byte(f), types())
			require.NoError(t, err)
			got := reg["a"].Fingerprint + reg["c"].Fingerprint
			require.Empty(t, seen[got])
			seen[got] = name
		})
	}
}
