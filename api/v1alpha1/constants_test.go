// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stringConstants reads from the source the exported string constants whose names begin with prefix, so that none can be
// forgotten here. The keys are the rests of the names.
func stringConstants(t *testing.T, prefix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				rest, named := strings.CutPrefix(name.Name, prefix)
				if !named {
					continue
				}
				require.Greater(t, len(spec.Values), i, name.Name)
				lit, ok := spec.Values[i].(*ast.BasicLit)
				require.True(t, ok && lit.Kind == token.STRING, "%s is written as a string", name.Name)
				value, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				found[rest] = value
			}
			return true
		})
	}
	require.NotEmpty(t, found)
	return found
}

// A value that equals its constant's name, which is unique, is unique as well.
func TestWordsOfTheAPIAreCamelCaseAndDistinct(t *testing.T) {
	for _, prefix := range []string{"Condition", "Reason", "Phase", "Mode", "Protocol"} {
		for name, value := range stringConstants(t, prefix) {
			require.Equal(t, name, value, "%s%s is spelled as it is named", prefix, name)
			require.Regexp(t, `^[A-Z][A-Za-z0-9]*$`, value)
		}
	}
}

func TestAnnotationsAreInOurGroupAndDistinct(t *testing.T) {
	owner := map[string]string{}
	for name, value := range stringConstants(t, "Annotation") {
		require.Regexp(t, `^[A-Z][A-Za-z0-9]*$`, name)
		key, ours := strings.CutPrefix(value, GroupVersion.Group+"/")
		require.True(t, ours, "%s has the prefix of our group", value)
		require.Equal(t, strings.ToLower(name), strings.ReplaceAll(key, "-", ""), "Annotation%s is spelled as it is named", name)
		require.Empty(t, owner[value], "%s is used twice", value)
		owner[value] = name
	}
	require.True(t, strings.HasPrefix(Finalizer, GroupVersion.Group+"/"))
}
