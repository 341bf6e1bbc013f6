// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// generateSchema writes into the schema which values there must be: all that have a default, at every level. Helm takes a null for
// "without its default", so that the null is refused there by the value's name, and no template meets it.
func generateSchema(chart string) error {
	path := filepath.Join(chart, "values.schema.json")
	var docs [2]yaml.Node // of a mapping both keep the order; JSON is YAML
	for i, f := range []string{path, filepath.Join(chart, "values.yaml")} {
		raw, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(raw, &docs[i]); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if len(docs[i].Content) != 1 {
			return fmt.Errorf("%s is empty", f)
		}
	}
	schema := docs[0].Content[0]
	demand(schema, docs[1].Content[0])
	var flat, out bytes.Buffer
	if err := encode(&flat, schema); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Indent(&out, flat.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return write(path, out.String()+"\n")
}

// demand sets what an object must have, unless null is one of the value's types.
func demand(schema, values *yaml.Node) {
	properties := field(schema, "properties")
	if properties == nil || values.Kind != yaml.MappingNode || len(values.Content) == 0 {
		return
	}
	names := &yaml.Node{Kind: yaml.SequenceNode}
	for i := 0; i+1 < len(values.Content); i += 2 {
		sub := field(properties, values.Content[i].Value)
		if sub == nil {
			continue
		}
		demand(sub, values.Content[i+1])
		if !nullable(sub) {
			names.Content = append(names.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: values.Content[i].Value})
		}
	}
	if old := field(schema, "required"); old != nil {
		*old = *names
		return
	}
	schema.Content = append(schema.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "required"}, names)
}

func nullable(schema *yaml.Node) bool {
	types := field(schema, "type")
	return types != nil && slices.ContainsFunc(types.Content, func(n *yaml.Node) bool { return n.Value == "null" })
}

func field(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// encode writes JSON in the order of the nodes.
func encode(out *bytes.Buffer, n *yaml.Node) error {
	brackets := map[yaml.Kind]string{yaml.MappingNode: "{}", yaml.SequenceNode: "[]"}[n.Kind]
	if brackets == "" {
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	out.WriteByte(brackets[0])
	for i, sub := range n.Content {
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 1:
			out.WriteByte(':')
		case i > 0:
			out.WriteByte(',')
		}
		if err := encode(out, sub); err != nil {
			return err
		}
	}
	out.WriteByte(brackets[1])
	return nil
}
