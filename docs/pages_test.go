// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			info, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", page, m[1])
			if anchor != "" {
				require.False(t, info.IsDir())
				require.Contains(t, anchors(read(t, target)), anchor, "%s links to %s", page, m[1])
			}
		}
	}
}

// anchors are those that the headings of a page get.
func anchors(text string) []string {
	var out []string
	inBlock := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
		}
		if !inBlock && strings.HasPrefix(line, "#") {
			out = append(out, anchor(strings.TrimSpace(strings.TrimLeft(line, "#"))))
		}
	}
	return out
}

func anchor(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
			return unicode.ToLower(c)
		default:
			return -1
		}
	}, heading)
}

var (
	makeLine   = regexp.MustCompile(`(?m)^make ([a-z][-a-z0-9 ]*)`)
	makefileAt = regexp.MustCompile(`(?m)^([a-z][-a-z0-9]*):`)
)

func TestMakeTargetsExist(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range makefileAt.FindAllStringSubmatch(read(t, filepath.Join(root, "Makefile")), -1) {
		targets[m[1]] = true
	}
	named := 0
	for _, page := range pages(t) {
		for _, command := range commands(read(t, page)) {
			m := makeLine.FindStringSubmatch(command)
			if m == nil {
				continue
			}
			for target := range strings.FieldsSeq(m[1]) {
				require.True(t, targets[target], "%s: make %s", page, target)
				named++
			}
		}
	}
	require.Greater(t, named, 10)
}

// commands are the spans of code and the lines of the blocks of a page.
func commands(text string) []string {
	var out []string
	for i, block := range strings.Split(text, "```") {
		if i%2 == 1 {
			out = append(out, strings.Split(block, "\n")...)
		} else {
			out = append(out, code(block)...)
		}
	}
	return out
}

func TestEveryPackageIsAComponent(t *testing.T) {
	listed := firstColumn(t, architecture, "## 8. Components")
	for _, dir := range packages(t) {
		found := false
		for _, l := range listed {
			found = found || dir == l || strings.HasPrefix(dir, l+"/")
		}
		require.True(t, found, "%s is missing in the table of components", dir)
	}
	for _, l := range listed {
		require.DirExists(t, filepath.Join(root, l))
	}
}

// packages lists the folders with Go code, but for tests and modules of their own.
func packages(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, noModule := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (noModule == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			found[filepath.ToSlash(dir)] = true
			return err
		}
		return nil
	})
	require.NoError(t, err)
	var out []string
	for dir := range found {
		out = append(out, dir)
	}
	require.NotEmpty(t, out)
	return out
}

func TestWhereABranchLivesIsTrue(t *testing.T) {
	tests, functions := declared(t)
	branches := rows(section(t, "docs/development.md", "## Where a branch of the flow lives"))
	require.NotEmpty(t, branches)
	for _, r := range branches {
		require.Len(t, r, 3, "%v", r)
		for _, name := range code(r[2]) {
			require.NotEmpty(t, tests[name], "no test is named %s", name)
		}
		file := ""
		for _, name := range code(r[1]) {
			switch {
			case strings.Contains(name, "/"):
				file = name
				require.FileExists(t, filepath.Join(root, file))
			case !strings.HasSuffix(name, ".go"):
				require.Contains(t, functions[name], file, "%s isn't in %s", name, file)
			}
		}
	}
}

var declaration = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)\(`)

// declared returns the files in which each test, and each other function, is declared.
func declared(t *testing.T) (tests, functions map[string][]string) {
	t.Helper()
	tests, functions = map[string][]string{}, map[string][]string{}
	for _, dir := range []string{"controllers", "providers", "internal", "test", "cmd", "api"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			file, err := filepath.Rel(root, path)
			for _, m := range declaration.FindAllStringSubmatch(read(t, path), -1) {
				if strings.HasSuffix(path, "_test.go") {
					tests[m[1]] = append(tests[m[1]], filepath.ToSlash(file))
				} else {
					functions[m[1]] = append(functions[m[1]], filepath.ToSlash(file))
				}
			}
			return err
		})
		require.NoError(t, err)
	}
	return tests, functions
}

func TestDecisionsAreListed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "adr", "0*.md"))
	require.NoError(t, err)
	decisions := section(t, architecture, "## 10. Decisions")
	for _, f := range files {
		require.Contains(t, decisions, "](adr/"+filepath.Base(f)+")")
		text := read(t, f)
		for _, heading := range []string{"## Context", "## Decision", "## What we gave up", "## How we would notice that it was wrong"} {
			require.Contains(t, text, "\n"+heading+"\n", f)
		}
	}
	require.Len(t, files, len(rows(decisions)))
}
