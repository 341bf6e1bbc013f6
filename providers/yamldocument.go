// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"errors"
	"io"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parseDocument returns the root of the file's only document, and null for a file without one.
func parseDocument(data []byte) (*yaml.Node, error) {
	lines := strings.SplitAfter(string(data), "\n")
	for i, l := range lines {
		if !utf8.ValidString(l) {
			return nil, fieldErrorf(i+1, "", "is not UTF-8 text; save it as UTF-8")
		}
	}
	docs, err := parseAll(string(data))
	switch {
	case err != nil && len(docs) == 0:
		return nil, syntaxError(lines, err)
	case err != nil:
		return nil, fieldErrorf(syntaxLine(lines, err), "", "one YAML document is expected; remove what follows it")
	case len(docs) > 1:
		return nil, fieldErrorf(docs[1].Line, "", "one YAML document is expected; remove this line and what follows")
	case len(docs) == 0:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1}, nil
	}
	return docs[0].Content[0], nil
}

// parseAll returns the documents before the end or the first error.
func parseAll(text string) ([]yaml.Node, error) {
	var docs []yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(text))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, err
		}
		docs = append(docs, doc)
	}
}

var (
	yamlsOwnLine = regexp.MustCompile(`^yaml: (line \d+: )?`)
	tabIndented  = regexp.MustCompile(`^[ \t-]*\t`)
)

func syntaxError(lines []string, err error) error {
	line := syntaxLine(lines, err)
	if tabIndented.MatchString(lines[line-1]) {
		return fieldErrorf(line, "", "is indented with a tab; use spaces")
	}
	return fieldErrorf(line, "", "%s", yamlsOwnLine.ReplaceAllString(err.Error(), ""))
}

// syntaxLine finds the line of a syntax error: the last one of the shortest beginning of the file that has the same
// error. What yaml says itself is often the line before, or where the list or mapping around it starts, or nothing.
func syntaxLine(lines []string, err error) int {
	return 1 + sort.Search(len(lines)-1, func(i int) bool {
		_, e := parseAll(strings.Join(lines[:i+1], ""))
		return e != nil && e.Error() == err.Error()
	})
}
