// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	tableBegin = "<!-- The table is generated from values.yaml by make manifests. -->\n"
	tableEnd   = "<!-- End of the table. -->\n"
	described  = "# -- "
)

// generateReadme writes the table of values into the chart's README. A value without a description is an error.
func generateReadme(chart string) error {
	raw, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	rows, err := valueRows(raw)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	readme := filepath.Join(chart, "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the table: %q to %q", readme, tableBegin, tableEnd)
	}
	return write(readme, before+tableBegin+"\n| Value | Default | Meaning |\n|---|---|---|\n"+rows+"\n"+tableEnd+after)
}

// valueRows returns a row for each value that is described, in the order of the file.
func valueRows(values []byte) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return "", err
	}
	if len(doc.Content) != 1 {
		return "", errors.New("is empty")
	}
	var rows strings.Builder
	err := walk(&rows, "", doc.Content[0])
	return rows.String(), err
}

func walk(rows *strings.Builder, path string, n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		text, ok := description(key.HeadComment)
		switch {
		case ok:
			var v any
			if err := value.Decode(&v); err != nil {
				return err
			}
			short, err := json.Marshal(v)
			if err != nil {
				return err
			}
			fmt.Fprintf(rows, "| `%s` | `%s` | %s |\n", at, short, strings.ReplaceAll(text, "|", `\|`))
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			if err := walk(rows, at, value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("line %d: %s has no description: write one above it that begins with %q", key.Line, at, described)
		}
	}
	return nil
}

// description is the text of the comment's last paragraph, if that begins as one of a value does.
func description(comment string) (string, bool) {
	_, text, ok := strings.Cut("\n"+comment, "\n"+described)
	return strings.ReplaceAll(text, "\n# ", " "), ok
}
