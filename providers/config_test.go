// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// gcpSection stands for the section of a provider.
type gcpSection struct {
	Project string   `yaml:"project"`
	Max     int      `yaml:"maxInstances"`
	Zones   []string `yaml:"zones"`
}

// types are two types of account: one whose section has a required field, one that needs none.
func types() map[string]providers.Factory {
	return map[string]providers.Factory{
		"gcp": func(_ string, s providers.Section) (providers.Provider, []string, error) {
			var c gcpSection
			if err := s.Decode(&c); err != nil {
				return nil, nil, err
			}
			if c.Project == "" {
				return nil, nil, s.Errorf("project", "write the id of the project")
			}
			return nil, c.Zones, nil
		},
		"local": func(_ string, s providers.Section) (providers.Provider, []string, error) {
			return nil, nil, s.Decode(&struct {
				Dir string `yaml:"dir"`
			}{})
		},
	}
}

// lines makes a file of its lines, so that a case can be counted by eye.
func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

func TestGoodConfigurations(t *testing.T) {
	cases := map[string]struct {
		file string
		want string // the accounts' names
	}{
		"an empty file":           {file: "", want: "none"},
		"a comment alone":         {file: "# accounts come later\n", want: "none"},
		"null":                    {file: "null\n", want: "none"},
		"an empty mapping":        {file: "{}\n", want: "none"},
		"an empty document":       {file: "---\n", want: "none"},
		"accounts without a list": {file: "accounts:\n", want: "none"},
		"an empty list":           {file: "accounts: []\n", want: "none"},
		"JSON":                    {file: `{"accounts": [{"name": "a", "type": "local"}]}`, want: "a"},
		"one document that ends":  {file: "accounts: [{name: a, type: local}]\n...\n", want: "a"},
		"Windows line ends":       {file: "accounts:\r\n- name: a\r\n  type: local\r\n", want: "a"},
		"no section":              {file: lines("accounts:", "- name: a", "  type: local"), want: "a"},
		"a section that is null":  {file: lines("accounts:", "- name: a", "  type: local", "  local:"), want: "a"},
		"null fields":             {file: lines("accounts:", "- name: a", "  type: local", "  allowedNamespaces:", "  local: {dir: ~}"), want: "a"},
		"an empty section":        {file: lines("accounts:", "- name: a", "  type: local", "  local: {}"), want: "a"},
		"two of one type":         {file: lines("accounts:", "- {name: b, type: local}", "- {name: a, type: local}"), want: "a, b"},
		"the section comes first": {file: lines("accounts:", "- gcp: {project: p}", "  type: gcp", "  name: a"), want: "a"},
		"a name of 63 characters": {file: "accounts: [{name: " + strings.Repeat("a", 63) + ", type: local}]", want: strings.Repeat("a", 63)},
		"JSON indented with tabs": {file: "{\n\t\"accounts\": [\n\t\t{\"name\": \"a\", \"type\": \"local\"}\n\t]\n}\n", want: "a"},
		"a name that is a number": {file: "accounts: [{name: 12, type: local}]", want: "12"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reg, err := providers.ParseConfig([]byte(c.file), types())
			require.NoError(t, err)
			require.NotNil(t, reg)
			require.Equal(t, c.want, reg.Names())
		})
	}
}

func TestAnAccountHasWhatTheFileSays(t *testing.T) {
	file := lines(
		"accounts:",
		"- name: gcp-eu",
		"  type: gcp",
		"  allowedNamespaces: [crawl, scrape]",
		"  gcp:",
		"    project: p1",
		"    zones: [b, a]",
		"- name: here",
		"  type: local",
	)
	reg, err := providers.ParseConfig([]byte(file), types())
	require.NoError(t, err)
	a := reg["gcp-eu"]
	require.Equal(t, "gcp-eu", a.Name)
	require.Equal(t, "gcp", a.Type)
	require.Equal(t, []string{"crawl", "scrape"}, a.AllowedNamespaces)
	require.Equal(t, []string{"b", "a"}, a.Zones, "in order of preference")
	require.Equal(t, "local", reg["here"].Type)
}

func TestBadConfigurations(t *testing.T) {
	account := func(l ...string) string {
		return lines(append([]string{"accounts:", "- name: a", "  type: gcp"}, l...)...)
	}
	cases := map[string]struct {
		file string
		want []string
	}{
		"an unknown field":                  {file: lines("accounts: []", "acounts: []"), want: []string{"line 2: acounts: is not a field; known here: accounts"}},
		"names that would garble the error": {file: lines(`"a\nb": 1`, `"": 2`, "a b: 3"), want: []string{`line 1: "a\nb": is not a field`, `line 2: "": is not a field`, `line 3: "a b": is not a field`}},
		"a field twice":                     {file: lines("accounts: []", "", "accounts: []"), want: []string{"line 3: accounts: is set twice"}},
		"a list for the document":           {file: lines("- name: a"), want: []string{"line 1: the document: must be a mapping"}},
		"a word for the document":           {file: "accounts\n", want: []string{"line 1: the document: must be a mapping"}},
		"a mapping for the list":            {file: lines("accounts:", "  name: a"), want: []string{"line 1: accounts: must be a list, not a mapping"}},
		"a number for the list":             {file: lines("accounts: 3"), want: []string{`line 1: accounts: must be a list, not "3"`}},
		"a word for an account":             {file: lines("accounts:", "- local"), want: []string{"line 2: accounts[0]: must be a mapping with name and type"}},
		"nothing for an account":            {file: lines("accounts:", "- {name: a, type: local}", "-"), want: []string{"line 3: accounts[1]: has no value; write one or leave it out"}},
		"an alias for an account":           {file: lines("accounts:", "- &x {name: a, type: local}", "- *x"), want: []string{"line 3: accounts[1]: is the alias *x; write the value itself"}},
		"an unknown type":                   {file: lines("accounts:", "- name: a", "  type: gpc"), want: []string{`line 3: accounts[0].type: "gpc" is not known; use one of: gcp, local`}},
		"a misspelt type, twice":            {file: lines("accounts:", "- name: a", "  type: gpc", "  gpc: {}", "- name: b", "  type: gpc", "  gcp: {a: &x b, a: *x}"), want: []string{"line 3: accounts[0].type: \"gpc\" is not known", "line 4: accounts[0].gpc: is not a field; known here: name, type, allowedNamespaces, limits, orphans, gcp, local", "line 6: accounts[1].type: ", "line 7: accounts[1].gcp.a: is set twice"}},
		"no type":                           {file: lines("accounts:", "- name: a"), want: []string{`line 2: accounts[0].type: "" is not known; use one of: gcp, local`}},
		"a list for the type":               {file: lines("accounts:", "- name: a", "  type: [gcp]"), want: []string{"line 3: accounts[0].type: must be a string, not a list"}},
		"no name":                           {file: lines("accounts:", "- type: local"), want: []string{`line 2: accounts[0].name: "" must be a DNS label`}},
		"an upper-case name":                {file: lines("accounts:", "- type: local", "  name: GCP"), want: []string{`line 3: accounts[0].name: "GCP" must be a DNS label`}},
		"a name of 64 characters":           {file: lines("accounts:", "- type: local", "  name: "+strings.Repeat("a", 64)), want: []string{"line 3: accounts[0].name: "}},
		"a name that ends with a hyphen":    {file: lines("accounts:", "- type: local", "  name: a-"), want: []string{"line 3: accounts[0].name: "}},
		"a list for the name":               {file: lines("accounts:", "- type: local", "  name: [a]"), want: []string{"line 3: accounts[0].name: must be a string, not a list"}},
		"a name twice":                      {file: lines("accounts:", "- {name: a, type: local}", "- {name: b, type: local}", "- {name: a, type: local}"), want: []string{`line 4: accounts[2].name: "a" is used twice`}},
		"an unknown field of an account":    {file: account("  gcp: {project: p}", "  zone: b"), want: []string{"line 5: accounts[0].zone: is not a field; known here: name, type, allowedNamespaces, limits, orphans, gcp"}},
		"a field of an account twice":       {file: account("  gcp: {project: p}", "  type: gcp"), want: []string{"line 5: accounts[0].type: is set twice"}},
		"the section of another type":       {file: account("  local: {}"), want: []string{"line 4: accounts[0].local: is not a field"}},
		"a merge key":                       {file: account("  <<: {gcp: {project: p}}"), want: []string{"line 4: accounts[0].<<: is a merge key; write the fields themselves"}},
		"a word for the namespaces":         {file: account("  allowedNamespaces: crawl"), want: []string{`line 4: accounts[0].allowedNamespaces: must be a list, not "crawl"`}},
		"an empty list of namespaces":       {file: account("  allowedNamespaces: []", "  gcp: {project: p}"), want: []string{"line 4: accounts[0].allowedNamespaces: is empty; leave it out to allow every namespace, or name some"}},
		"a namespace that is none":          {file: account("  allowedNamespaces: [crawl, Crawl_2]"), want: []string{`line 4: accounts[0].allowedNamespaces[1]: "Crawl_2" is not a namespace name`}},
		"a list for the section":            {file: account("  gcp: []"), want: []string{"line 4: accounts[0].gcp: must be a mapping"}},
		"an unknown field of the section":   {file: account("  gcp:", "    project: p", "    projct: q"), want: []string{"line 6: accounts[0].gcp.projct: is not a field; known here: project, maxInstances, zones"}},
		"a field of the section twice":      {file: account("  gcp:", "    project: p", "    project: q"), want: []string{"line 6: accounts[0].gcp.project: is set twice"}},
		"a word for a number":               {file: account("  gcp:", "    project: p", "    maxInstances: ten"), want: []string{`line 6: accounts[0].gcp.maxInstances: must be a whole number of at most 64 bits, not "ten"`}},
		"a number too large":                {file: account("  gcp:", "    maxInstances: 99999999999999999999"), want: []string{"line 5: accounts[0].gcp.maxInstances: must be a whole number of at most 64 bits"}},
		"a mapping for a word":              {file: account("  gcp:", "    project: {id: p}"), want: []string{"line 5: accounts[0].gcp.project: must be a string, not a mapping"}},
		"a provider's own complaint":        {file: account("  gcp:", "    zones: []", "    project: ''"), want: []string{"line 6: accounts[0].gcp.project: write the id of the project"}},
		"a required field left out":         {file: account("  gcp:", "    zones: []"), want: []string{"line 4: accounts[0].gcp.project: write the id of the project"}},
		"a required section left out":       {file: lines("accounts:", "- {name: b, type: local}", "- name: a", "  type: gcp"), want: []string{"line 3: accounts[1].gcp.project: write the id of the project"}},
		"a required section that is null":   {file: account("  gcp:"), want: []string{"line 4: accounts[0].gcp.project: write the id of the project"}},
		"a type that is null":               {file: lines("accounts:", "- name: a", "  type: ~"), want: []string{`line 3: accounts[0].type: "" is not known`}},
		"a name that is null":               {file: lines("accounts:", "- type: local", "  name:"), want: []string{`line 3: accounts[0].name: "" must be a DNS label`}},
		"a namespace on a line of its own": {
			file: account("  allowedNamespaces:", "  - crawl", "  - Crawl_2", "  - [scrape]", "  -"),
			want: []string{`line 6: accounts[0].allowedNamespaces[1]: "Crawl_2"`, "line 7: accounts[0].allowedNamespaces[2]: must be a string, not a list", "line 8: accounts[0].allowedNamespaces[3]: has no value"},
		},
		"three errors at once": {
			file: lines("accounts:", "- {name: a, type: x}", "- {name: B, type: local}", "- {name: c, type: local, zone: z}"),
			want: []string{"line 2: accounts[0].type: ", "line 3: accounts[1].name: ", "line 4: accounts[2].zone: "},
		},
		"every error of one account, by line": {
			file: lines("accounts:", "- gcp:", "    zones: 3", "    maxInstances: x", "    projct: p", "  zone: b", "  name: A", "  allowedNamespaces: [B, C]", "  type: gcp", "  name: b"),
			want: []string{
				lines(
					"operator configuration: line 3: accounts[0].gcp.zones: must be a list, not \"3\"",
					"line 4: accounts[0].gcp.maxInstances: must be a whole number of at most 64 bits, not \"x\"",
					"line 5: accounts[0].gcp.projct: is not a field; known here: project, maxInstances, zones",
					"line 6: accounts[0].zone: is not a field; known here: name, type, allowedNamespaces, limits, orphans, gcp",
					"line 7: accounts[0].name: \"A\" must be a DNS label: at most 63 lower-case letters, digits and hyphens",
					"line 8: accounts[0].allowedNamespaces[0]: \"B\" is not a namespace name",
					"line 8: accounts[0].allowedNamespaces[1]: \"C\" is not a namespace name",
				) + "line 10: accounts[0].name: is set twice",
			},
		},
		"no name and no type":        {file: lines("accounts:", "- {}"), want: []string{`line 2: accounts[0].name: "" must be`, `line 2: accounts[0].type: "" is not known`}},
		"a name twice, among errors": {file: lines("accounts:", "- {name: a, type: x}", "- {name: a, type: local, zone: z}"), want: []string{"line 2: accounts[0].type: ", `line 3: accounts[1].name: "a" is used twice, first on line 2`, "line 3: accounts[1].zone: "}},
		"an error and a duplicate":   {file: lines("accounts:", "- name: a", "accounts: []"), want: []string{"line 2: accounts[0].type: ", "line 3: accounts: is set twice"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reg, err := providers.ParseConfig([]byte(c.file), types())
			require.Error(t, err)
			require.Nil(t, reg)
			require.True(t, strings.HasPrefix(err.Error(), "operator configuration: "), err.Error())
			for _, want := range c.want {
				require.Contains(t, err.Error(), want)
			}
		})
	}
}

// FuzzParseConfig: whatever is in the file, it is refused with a sentence or gives accounts that can be used.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{
		"", "null", "---\n", "accounts:\n", "accounts: []\n---\n", "\taccounts: [", "accounts: &a [*a]\n", "? [a]\n: b\n", "\xff\xfe",
		"accounts:\n- name: a\n  type: gcp\n  allowedNamespaces: [crawl]\n  gcp: {project: p, zones: [b]}\n- name: b\n  type: local\n",
		"accounts:\n- &x {name: a, type: local}\n- *x\n", "accounts:\n- <<: {name: a}\n  type: gcp\n", "accounts:\n- {name: a, type: gcp, gcp: {zones: &z [*z]}}\n",
		"accounts: !!null x\n", "accounts: !a%0Ab x\n", "\":\": 1\n", "accounts:\n- {name: 0x1f, type: local, local: {dir: ~}}\n", "accounts: [{name: a, type: local}, {name: a, type: local}]",
		"accounts:\n- name: a\n  type: local\n  limits: {callsPerSecond: .nan, burst: 1, maxInstances: ~}\n  orphans: Report\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		reg, err := providers.ParseConfig(file, types())
		if err != nil {
			require.Nil(t, reg)
			text, prefixed := strings.CutPrefix(err.Error(), "operator configuration: ")
			require.True(t, prefixed, err.Error())
			for line := range strings.SplitSeq(text, "\n") {
				require.Regexp(t, `^line [1-9]\d*: [^:]`, line)
			}
			return
		}
		again, err := providers.ParseConfig(file, types())
		require.NoError(t, err)
		require.Equal(t, reg, again)
		for name, a := range reg {
			require.Equal(t, name, a.Name)
			require.Regexp(t, `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, name)
			require.Contains(t, types(), a.Type)
			require.NotEmpty(t, a.Fingerprint)
			ref := providers.Ref{Account: name, Path: "x"}
			back, err := providers.ParseRef(ref.String())
			require.NoError(t, err)
			require.Equal(t, ref, back)
		}
	})
}
