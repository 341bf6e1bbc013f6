// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"encoding"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// fieldError is an error about one field of the configuration file.
type fieldError struct {
	line  int // 0: not known
	field string
	err   error
}

func (e *fieldError) Error() string {
	field := e.field
	if field == "" {
		field = "the document"
	}
	if e.line == 0 {
		return field + ": " + e.err.Error()
	}
	return fmt.Sprintf("line %d: %s: %s", e.line, field, e.err)
}

func (e *fieldError) Unwrap() error { return e.err }

func fieldErrorf(line int, field, format string, args ...any) error {
	return &fieldError{line: line, field: strings.TrimPrefix(field, "."), err: fmt.Errorf(format, args...)}
}

func one(line int, field, format string, args ...any) []error {
	return []error{fieldErrorf(line, field, format, args...)}
}

func errorLine(err error) int {
	var fe *fieldError
	if errors.As(err, &fe) {
		return fe.line
	}
	return 0
}

// placed takes joined errors apart and gives those without a line the section's.
func placed(err error, s Section) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, placed(e, s)...)
		}
		return errs
	}
	var fe *fieldError
	if errors.As(err, &fe) {
		return []error{err}
	}
	return []error{s.Errorf("", "%w", err)}
}

// checker returns everything that is wrong with a value. The line is that of its field's name or of the list's item.
type checker func(n *yaml.Node, line int, path string) []error

// field is a field that a mapping may have.
type field struct {
	name  string
	check checker
}

// value refuses what YAML has beyond plain values: an alias or a tag would let a line mean something that isn't written
// there. Null is good, and the checker doesn't see it.
func value(check checker) checker {
	return func(n *yaml.Node, line int, path string) []error {
		switch {
		case n.Kind == yaml.AliasNode:
			return one(line, path, "is the alias *%s; write the value itself", n.Value)
		case n.Style&yaml.TaggedStyle != 0:
			return one(line, path, "has the tag %q; write the value alone", n.Tag)
		case isNull(n):
			return nil
		}
		return check(n, line, path)
	}
}

// present refuses null where it wouldn't mean that something is left out.
func present(check checker) checker {
	return func(n *yaml.Node, line int, path string) []error {
		if isNull(n) {
			return one(line, path, "has no value; write one or leave it out")
		}
		return check(n, line, path)
	}
}

// mapping gives each value to the checker that find returns for its name; nil means that there is no such field.
func mapping(find func(name string) checker, known func() string) checker {
	return func(n *yaml.Node, line int, path string) []error {
		if n.Kind != yaml.MappingNode {
			return one(line, path, "must be a mapping, not %s", kindOf(n))
		}
		var errs []error
		seen := map[string]bool{}
		for k, v := range pairs(n) {
			at := within(path, k.Value)
			check := find(k.Value)
			switch {
			case k.Kind != yaml.ScalarNode || k.Style&yaml.TaggedStyle != 0 || isNull(k):
				errs = append(errs, fieldErrorf(k.Line, path, "has a name that is no plain word"))
			case k.ShortTag() == "!!merge":
				errs = append(errs, fieldErrorf(k.Line, at, "is a merge key; write the fields themselves"))
			case seen[k.Value]:
				errs = append(errs, fieldErrorf(k.Line, at, "is set twice"))
			case check == nil:
				errs = append(errs, fieldErrorf(k.Line, at, "is not a field; known here: %s", known()))
			default:
				errs = append(errs, check(v, k.Line, at)...)
			}
			seen[k.Value] = true
		}
		return errs
	}
}

// fields is a mapping with these fields and no other.
func fields(all ...field) checker {
	find := func(name string) checker {
		if i := slices.IndexFunc(all, func(f field) bool { return f.name == name }); i >= 0 {
			return all[i].check
		}
		return nil
	}
	return mapping(find, func() string {
		names := make([]string, 0, len(all))
		for _, f := range all {
			names = append(names, f.name)
		}
		return listed(names)
	})
}

func list(item checker) checker {
	return func(n *yaml.Node, line int, path string) []error {
		if n.Kind != yaml.SequenceNode {
			return one(line, path, "must be a list, not %s", kindOf(n))
		}
		var errs []error
		for i, c := range n.Content {
			errs = append(errs, present(item)(c, c.Line, fmt.Sprintf("%s[%d]", path, i))...)
		}
		return errs
	}
}

// anything is a value without a type of its own: what is written there must still be plain.
func anything(n *yaml.Node, line int, path string) []error {
	switch n.Kind {
	case yaml.MappingNode:
		return mapping(func(string) checker { return value(anything) }, nil)(n, line, path)
	case yaml.SequenceNode:
		return list(value(anything))(n, line, path)
	default:
		return nil
	}
}

// ofType checks what yaml would decode into a value of the type. yaml's own strictness isn't enough: it knows unknown
// fields in readers only, cuts 3.7 to the whole number 3, and names neither field nor, often, the right line.
func ofType(t reflect.Type) checker {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return value(func(n *yaml.Node, line int, path string) []error {
		p := reflect.PointerTo(t)
		switch {
		case t.Kind() == reflect.Interface || p.Implements(reflect.TypeFor[yaml.Unmarshaler]()):
			errs := anything(n, line, path)
			if len(errs) > 0 || t.Kind() == reflect.Interface {
				return errs
			}
			return decodes(t)(n, line, path)
		case p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
			return decodes(t)(n, line, path)
		case t.Kind() == reflect.Struct:
			return fields(structFields(t)...)(n, line, path)
		case t.Kind() == reflect.Map:
			return mapOf(t)(n, line, path)
		case t.Kind() == reflect.Slice:
			return list(ofType(t.Elem()))(n, line, path)
		}
		return decodes(t)(n, line, path)
	})
}

// structFields lists a struct's fields by the names that yaml gives them.
func structFields(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case slices.Contains(strings.Split(options, ","), "inline") && f.Type.Kind() == reflect.Struct:
			all = append(all, structFields(f.Type)...)
			continue
		case name == "":
			name = strings.ToLower(f.Name)
		}
		all = append(all, field{name, ofType(f.Type)})
	}
	return all
}

func mapOf(t reflect.Type) checker {
	entry := present(ofType(t.Elem()))
	entries := mapping(func(string) checker { return entry }, nil)
	return func(n *yaml.Node, line int, path string) []error {
		errs := entries(n, line, path)
		if t.Key().Kind() != reflect.String {
			for k := range pairs(n) {
				errs = append(errs, decodes(t.Key())(k, k.Line, within(path, k.Value))...)
			}
		}
		return errs
	}
}

// decodes is a value that yaml can decode into the type.
func decodes(t reflect.Type) checker {
	return func(n *yaml.Node, line int, path string) []error {
		err := n.Decode(reflect.New(t).Interface())
		if err == nil && !(isWhole(t) && n.ShortTag() == "!!float") {
			return nil
		}
		var mismatch *yaml.TypeError
		if err != nil && !errors.As(err, &mismatch) {
			return one(line, path, "%w", err) // the type's own words
		}
		return one(line, path, "must be %s, not %s", wanted(t), kindOf(n))
	}
}

func isWhole(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr }

func wanted(t reflect.Type) string {
	switch k := t.Kind(); {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration like 30s"
	case isWhole(t) && k >= reflect.Uint:
		return fmt.Sprintf("a whole number of at most %d bits, 0 or more", t.Bits())
	case isWhole(t):
		return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
	case k == reflect.Float32 || k == reflect.Float64:
		return "a number"
	case k == reflect.Bool:
		return "true or false"
	case k == reflect.String:
		return "a string"
	default:
		return "a value of type " + t.String()
	}
}

// kindOf tells what a node is in the words of who wrote it.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return fmt.Sprintf("%.40q", n.Value)
	}
}

// withoutNulls copies a node without the fields that are null, so that null leaves a default alone as a missing field
// does: yaml would set a list or a mapping to nothing.
func withoutNulls(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = nil
	if n.Kind != yaml.MappingNode {
		for _, item := range n.Content {
			c.Content = append(c.Content, withoutNulls(item))
		}
		return &c
	}
	for k, v := range pairs(n) {
		if !isNull(v) {
			c.Content = append(c.Content, k, withoutNulls(v))
		}
	}
	return &c
}

// within is the path of a mapping's field. A name that could garble the message is quoted.
func within(path, name string) string {
	if quoted := strconv.Quote(name); name == "" || len(quoted) != len(name)+2 || strings.ContainsAny(name, " :") {
		name = quoted
	}
	return path + "." + name
}

// pairs ranges over a mapping's names and values, over nothing for other nodes.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// child returns the value of a mapping's field, nil if there is none.
func child(n *yaml.Node, name string) *yaml.Node {
	for k, v := range pairs(n) {
		if k.Value == name {
			return v
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func isMissing(n *yaml.Node, name string) bool {
	c := child(n, name)
	return c == nil || isNull(c)
}

// text is the value of a scalar, "" for anything else.
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || isNull(n) {
		return ""
	}
	return n.Value
}

var steps = regexp.MustCompile(`[^.\[\]]+`)

// lineOf follows a path like "zones[1].name" from a node on the line as far as it goes, and returns the line there.
func lineOf(n *yaml.Node, line int, path string) int {
	for _, step := range steps.FindAllString(path, -1) {
		var next *yaml.Node
		for k, v := range pairs(n) {
			if k.Value == step && next == nil {
				next, line = v, k.Line
			}
		}
		if i, err := strconv.Atoi(step); err == nil && n != nil && n.Kind == yaml.SequenceNode && i >= 0 && i < len(n.Content) {
			next, line = n.Content[i], n.Content[i].Line
		}
		if next == nil {
			return line
		}
		n = next
	}
	return line
}

func listed(names []string) string { return strings.Join(names, ", ") }
