// SPDX-License-Identifier: Apache-2.0

// Package docs_test keeps the pages true to the code: what a page lists is what the code has, examples decode, links lead
// somewhere.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root of the checkout, seen from this package.
const root = ".."

// pages lists what is written by hand.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/spec/*.md", "docs/adr/*.md"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		found = append(found, matches...)
	}
	require.Greater(t, len(found), 10)
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

// section returns what is under a heading, to the next one of its level or a higher one.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text := "\n" + read(t, filepath.Join(root, page))
	_, after, found := strings.Cut(text, "\n"+heading+"\n")
	require.True(t, found, "%s has no heading %q", page, heading)
	level := strings.Count(strings.Fields(heading)[0], "#")
	end := regexp.MustCompile(`(?m)^#{1,` + strconv.Itoa(level) + `} `)
	if at := end.FindStringIndex(after); at != nil {
		after = after[:at[0]]
	}
	return after
}

// rows returns the cells of every table in a text, without the heads.
func rows(text string) [][]string {
	var out [][]string
	head := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			head = true
			continue
		}
		if head {
			head = false
			continue
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// code returns what stands between backticks.
func code(cell string) []string {
	var out []string
	for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// firstColumn returns the names that a section's tables begin their rows with, each once.
func firstColumn(t *testing.T, page, heading string) []string {
	t.Helper()
	seen := map[string]bool{}
	out := []string{}
	for _, r := range rows(section(t, page, heading)) {
		names := code(r[0])
		require.Len(t, names, 1, "%s, %s: a row begins with one name in backticks: %v", page, heading, r)
		if !seen[names[0]] {
			seen[names[0]] = true
			out = append(out, names[0])
		}
	}
	require.NotEmpty(t, out, "%s, %s has no table", page, heading)
	return out
}

// constants returns the values of a package's string constants by name.
func constants(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range sources(t, dir) {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				collect(t, spec, out)
			}
		}
	}
	return out
}

func collect(t *testing.T, spec ast.Spec, out map[string]string) {
	t.Helper()
	values, ok := spec.(*ast.ValueSpec)
	if !ok {
		return
	}
	for i, value := range values.Values {
		if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			out[values.Names[i].Name] = text
		}
	}
}

// withPrefix returns the values of the constants whose names begin with prefix.
func withPrefix(t *testing.T, dir, prefix string) []string {
	t.Helper()
	var out []string
	for name, value := range constants(t, dir) {
		if strings.HasPrefix(name, prefix) {
			out = append(out, value)
		}
	}
	require.NotEmpty(t, out, "no constant %s... in %s", prefix, dir)
	return out
}

// sources parses a package without its tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	require.NotEmpty(t, files, dir)
	return files
}

// functions finds the functions and methods of a name in a package.
func functions(t *testing.T, dir, name string) []*ast.FuncDecl {
	t.Helper()
	var found []*ast.FuncDecl
	for _, file := range sources(t, dir) {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == name {
				found = append(found, f)
			}
		}
	}
	require.NotEmpty(t, found, "%s.%s", dir, name)
	return found
}

// function finds the one function or method of a name in a package.
func function(t *testing.T, dir, name string) *ast.FuncDecl {
	t.Helper()
	found := functions(t, dir, name)
	require.Len(t, found, 1, "%s.%s", dir, name)
	return found[0]
}

// cases returns the clauses of the one switch of a function.
func cases(t *testing.T, f *ast.FuncDecl) []*ast.CaseClause {
	t.Helper()
	var out []*ast.CaseClause
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if clause, ok := n.(*ast.CaseClause); ok {
			out = append(out, clause)
		}
		return true
	})
	require.NotEmpty(t, out, f.Name.Name)
	return out
}

// fieldsOf returns the key-value pairs of the composite literals below a node, each value as the name or literal that it
// ends in.
func fieldsOf(n ast.Node) map[string]string {
	out := map[string]string{}
	ast.Inspect(n, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if key, ok := pair.Key.(*ast.Ident); ok {
			out[key.Name] = last(pair.Value)
		}
		return true
	})
	return out
}

// last is the name that an expression ends in: Reason of v1alpha1.Reason.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.BasicLit:
		return e.Value
	default:
		return ""
	}
}

// returned is the name that a return statement ends in.
func returned(s ast.Stmt) string {
	if r, ok := s.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
		return last(r.Results[0])
	}
	return ""
}
