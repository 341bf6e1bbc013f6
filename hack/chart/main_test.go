// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
)

const root = "../.."

// copied is a copy of what the generator reads and writes.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{"charts", "config"} {
		require.NoError(t, os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(root, part))))
	}
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

func edit(t *testing.T, path, old, replacement string) {
	t.Helper()
	text := read(t, path)
	require.Contains(t, text, old)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(text, old, replacement, 1)), 0o600))
}

func TestWhatIsGeneratedFollowsItsSources(t *testing.T) {
	dir := copied(t)
	edit(t, filepath.Join(dir, "config/crd/bases/crawl.proxy-operator.io_proxies.yaml"), "scope: Namespaced", "scope: Namespaced # {{ braces }}")
	edit(t, filepath.Join(dir, "config/rbac/role.yaml"), "- patch\n", "- patch\n  - update\n")
	edit(t, filepath.Join(dir, "charts/proxy-operator/values.yaml"), "instance: default", "instance: other")
	require.NoError(t, run(t.Context(), dir, []string{"generate"}, nil))
	templates := filepath.Join(dir, "charts/proxy-operator/templates")
	require.Contains(t, read(t, filepath.Join(templates, "crds/crawl.proxy-operator.io_proxies.yaml")), `# {{ "{{" }} braces }}`)
	require.Contains(t, read(t, filepath.Join(templates, "_rules.tpl")), "- update\n")
	require.Contains(t, read(t, filepath.Join(dir, "charts/proxy-operator/README.md")), "| `instance` | `\"other\"` |")
	for _, f := range []string{"templates/_rules.tpl", "README.md"} {
		require.NotEqual(t, read(t, filepath.Join(root, "charts/proxy-operator", f)), read(t, filepath.Join(dir, "charts/proxy-operator", f)))
	}
}

// A value that the schema doesn't require is one that a null takes away.
func TestTheSchemaRequiresEveryValueThatHasADefault(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"values.yaml": "b: {c: 1, d: null}\na: {}\nunknown: 1\n",
		"values.schema.json": `{"required": ["gone"], "properties": {"a": {"properties": {"free": {"pattern": "^\\.<&$"}}}, ` +
			`"b": {"properties": {"d": {"type": ["integer", "null"]}, "c": {"maximum": 2147483647, "minimum": 0.1}}}}}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for range 2 { // the second time nothing changes
		require.NoError(t, generateSchema(dir))
		text := read(t, filepath.Join(dir, "values.schema.json"))
		require.Equal(t, `{"required":["b","a"],"properties":{"a":{"properties":{"free":{"pattern":"^\\.<&$"}}},`+
			`"b":{"properties":{"d":{"type":["integer","null"]},"c":{"maximum":2147483647,"minimum":0.1}},"required":["c"]}}}`,
			strings.NewReplacer("\n", "", " ", "").Replace(text))
		require.True(t, strings.HasPrefix(text, "{\n  \"required\": [\n    \"b\",\n"), text)
	}
	require.Equal(t, read(t, filepath.Join(root, "charts/proxy-operator/values.schema.json")), func() string {
		dir := copied(t)
		require.NoError(t, generateSchema(filepath.Join(dir, "charts/proxy-operator")))
		return read(t, filepath.Join(dir, "charts/proxy-operator/values.schema.json"))
	}(), "run make manifests")
}

func TestAValueWithoutADescriptionIsRefused(t *testing.T) {
	_, err := valueRows([]byte("# -- What it is.\na: 1\nb:\n  # Not described.\n  c: 2\n"))
	require.EqualError(t, err, `line 5: b.c has no description: write one above it that begins with "# -- "`)
	rows, err := valueRows([]byte("# About the file.\n\n# -- What it is,\n# at length: a | b.\na: {b: 1}\n"))
	require.NoError(t, err)
	require.Equal(t, "| `a` | `{\"b\":1}` | What it is, at length: a \\| b. |\n", rows)
}

func TestThePackageIsTheSameForTheSameFiles(t *testing.T) {
	dir := copied(t)
	packed := func(to string) []byte {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), dir, []string{"package", filepath.Join(dir, to)}, &out))
		return []byte(read(t, strings.TrimSpace(out.String())))
	}
	first := packed("one")
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "charts/proxy-operator/values.yaml"), later, later))
	require.Equal(t, first, packed("two"))
	c, err := loader.LoadArchive(bytes.NewReader(first))
	require.NoError(t, err)
	require.Equal(t, "proxy-operator", c.Name())
	for _, f := range c.Raw {
		require.False(t, strings.HasPrefix(f.Name, "ci/"), f.Name)
	}
	require.Equal(t, read(t, filepath.Join(root, "charts/proxy-operator/values.schema.json")), string(c.Schema))
}

func TestTheEarlierChartIsPackagedUnderALowerVersion(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), root, []string{"earlier", dir}, &out))
	file := filepath.Join(dir, "proxy-operator-0.0.1.tgz")
	require.Contains(t, out.String(), file+" is the chart of ")
	c, err := loader.Load(file)
	require.NoError(t, err)
	require.Equal(t, "0.0.1", c.Metadata.Version)
	require.NotEmpty(t, c.Templates)
	require.NotEmpty(t, c.Schema)
}

// The program that make e2e runs has a module of its own, as it needs more than the SDK does. That of Helm 4 comes from the module of
// its SDK.
func TestTheProgramOfHelm3HasTheVersionOfItsSDK(t *testing.T) {
	version := func(module string) string {
		found := regexp.MustCompile(`helm\.sh/helm/v3 (v\S+)`).FindStringSubmatch(read(t, filepath.Join(root, module)))
		require.Len(t, found, 2, module)
		return found[1]
	}
	require.Equal(t, version("go.mod"), version("tools/helm3/go.mod"))
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"generate", "x"}, {"package"}, {"earlier"}, {"lint"}} {
		require.ErrorIs(t, run(t.Context(), root, args, nil), errUsage)
	}
}
