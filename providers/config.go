// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Factory makes the provider of one account from its section of the configuration and returns the account's zones.
//
// It decodes the section, even into an empty struct: what isn't decoded isn't checked. It may be called for a file that
// is refused in the end, so that all of its errors are known at once: it starts nothing and changes nothing.
type Factory func(name string, section Section) (Provider, []string, error)

// Section is the part of an account's configuration that only its provider understands. Sections hold no secrets:
// credentials come from files or from the environment.
type Section struct {
	node *yaml.Node // nil: there is none
	line int        // of the section's name, or of the account that has no section
	path string
}

// Decode fills out, a pointer to a struct with yaml tags. At any depth, a field that a struct doesn't have, a field that
// is set twice and a value of the wrong type are errors which name line and field; all of them are returned, joined, and
// out is left as it was. A missing section leaves out as it is, and so does a field that is missing or null.
func (s Section) Decode(out any) error {
	if s.node == nil {
		return nil
	}
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return s.Errorf("", "can't be decoded into %T: a pointer to a struct is needed", out)
	}
	if errs := ofType(v.Type().Elem())(s.node, s.line, s.path); len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := withoutNulls(s.node).Decode(out); err != nil {
		return s.Errorf("", "%w", err)
	}
	return nil
}

// Errorf returns an error about a field of the section, with its line: that of the field, else that of the nearest thing
// around it which the file has. The field of a field is "network.name", an item of a list "zones[1]"; "" is the section.
func (s Section) Errorf(field, format string, args ...any) error {
	path := s.path
	if field != "" {
		path += "." + field
	}
	return fieldErrorf(lineOf(s.node, s.line, field), path, format, args...)
}

var accountName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// ParseConfig reads the operator's configuration file:
//
//	accounts:
//	- name: gcp-eu
//	  type: gcp
//	  allowedNamespaces: [crawl]
//	  limits: {callsPerSecond: 20, burst: 40, maxInstances: 100}
//	  orphans: Report
//	  gcp: {...}
//
// It is strict: an unknown field, a field or a name that is used twice, a wrong type, an unknown account type and what
// YAML has beyond plain values (aliases, merge keys, tags) are errors which name the line and the field. A field without
// a value is as good as a missing one. All errors are reported at once, in the order of lines; only a file that isn't
// YAML has one.
func ParseConfig(data []byte, types map[string]Factory) (Registry, error) {
	root, err := parseDocument(data)
	if err != nil {
		return nil, fmt.Errorf("operator configuration: %w", err)
	}
	p := parser{types: types, lines: map[string]int{}, reg: Registry{}}
	errs := value(fields(field{"accounts", value(list(value(p.account)))}))(root, root.Line, "")
	if len(errs) > 0 {
		slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(errorLine(a), errorLine(b)) })
		return nil, fmt.Errorf("operator configuration: %w", errors.Join(errs...))
	}
	return p.reg, nil
}

// parser holds what is known of the accounts so far.
type parser struct {
	types map[string]Factory
	lines map[string]int // where each name was used first
	reg   Registry
}

// account checks and adds one account. It is a checker, so that an account is told of like any other value.
func (p *parser) account(n *yaml.Node, line int, path string) []error {
	if n.Kind != yaml.MappingNode {
		return one(line, path, "must be a mapping with name and type, not %s", kindOf(n))
	}
	a := Account{Name: text(child(n, "name")), Type: text(child(n, "type"))}
	_, known := p.types[a.Type]
	errs := fields(p.fieldsOf(a.Type)...)(n, line, path)
	if isMissing(n, "name") {
		errs = append(errs, badName("", lineOf(n, line, "name"), path+".name"))
	}
	if isMissing(n, "type") {
		errs = append(errs, p.unknownType("", lineOf(n, line, "type"), path+".type"))
	}
	if first, dup := p.lines[a.Name]; dup {
		errs = append(errs, fieldErrorf(lineOf(n, line, "name"), path+".name",
			"%q is used twice, first on line %d; account names are unique", a.Name, first))
	} else if a.Name != "" {
		p.lines[a.Name] = lineOf(n, line, "name")
	}
	if ns := child(n, "allowedNamespaces"); ns != nil {
		for _, item := range ns.Content {
			a.AllowedNamespaces = append(a.AllowedNamespaces, text(item))
		}
	}
	a.Limits, a.Orphans = limitsOf(child(n, "limits")), orphansOf(child(n, "orphans"), a.Type)
	if known {
		errs = append(errs, p.build(&a, n, line, path)...)
	}
	if len(errs) == 0 {
		p.reg[a.Name] = a
	}
	return errs
}

// build fills in what comes from the account's own section.
func (p *parser) build(a *Account, n *yaml.Node, line int, path string) []error {
	s := Section{line: lineOf(n, line, a.Type), path: path + "." + a.Type}
	if !isMissing(n, a.Type) {
		s.node = child(n, a.Type)
	}
	var err error
	if a.Provider, a.Zones, err = p.types[a.Type](a.Name, s); err != nil {
		return placed(err, s)
	}
	if a.Fingerprint, err = fingerprint(n); err != nil {
		return placed(err, s)
	}
	return nil
}

// fieldsOf lists the fields of an account. The section of a known type is left to its factory; where the type is
// misspelt, the section of any will do.
func (p *parser) fieldsOf(typeName string) []field {
	all := []field{
		{"name", p.nameField},
		{"type", p.typeField},
		{"allowedNamespaces", value(namespaces)},
		{"limits", value(limits)},
		{"orphans", value(orphans)},
	}
	if _, known := p.types[typeName]; known {
		return append(all, field{typeName, func(*yaml.Node, int, string) []error { return nil }})
	}
	for _, t := range p.typeNames() {
		all = append(all, field{t, value(anything)})
	}
	return all
}

func (p *parser) nameField(n *yaml.Node, line int, path string) []error {
	if errs := ofType(reflect.TypeFor[string]())(n, line, path); len(errs) > 0 || isNull(n) {
		return errs // null is told of as missing
	}
	if !accountName.MatchString(n.Value) {
		return []error{badName(n.Value, line, path)}
	}
	return nil
}

func (p *parser) typeField(n *yaml.Node, line int, path string) []error {
	if errs := ofType(reflect.TypeFor[string]())(n, line, path); len(errs) > 0 || isNull(n) {
		return errs // null is told of as missing
	}
	if _, known := p.types[n.Value]; !known {
		return []error{p.unknownType(n.Value, line, path)}
	}
	return nil
}

// namespaces refuses the empty list: it reads as nobody, and would be as good as a missing one, which is everybody.
func namespaces(n *yaml.Node, line int, path string) []error {
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		return one(line, path, "is empty; leave it out to allow every namespace, or name some")
	}
	return list(namespaceItem)(n, line, path)
}

func namespaceItem(n *yaml.Node, line int, path string) []error {
	if errs := ofType(reflect.TypeFor[string]())(n, line, path); len(errs) > 0 {
		return errs
	}
	if !accountName.MatchString(n.Value) {
		return one(line, path, "%q is not a namespace name", n.Value)
	}
	return nil
}

func badName(name string, line int, path string) error {
	return fieldErrorf(line, path, "%q must be a DNS label: at most 63 lower-case letters, digits and hyphens", name)
}

func (p *parser) unknownType(name string, line int, path string) error {
	return fieldErrorf(line, path, "%q is not known; use one of: %s", name, listed(p.typeNames()))
}

func (p *parser) typeNames() []string { return slices.Sorted(maps.Keys(p.types)) }

// fingerprint is a plain hash of the account's values, but for those that no create depends on: another limit doesn't
// make a request good that was refused. Comments, layout, quotes and the order of fields don't change it,
// for a failure that waits for its inputs to change would else be tried again for nothing. It need not resist guessing:
// sections hold no secrets. Numbers count as they are written, because a field that takes text takes them so.
func fingerprint(n *yaml.Node) (string, error) {
	values := withoutNulls(n)
	for _, name := range []string{"limits", "orphans"} {
		if i := slices.IndexFunc(values.Content, func(k *yaml.Node) bool { return k.Value == name }); i >= 0 {
			values.Content = slices.Delete(values.Content, i, i+2)
		}
	}
	raw, err := json.Marshal(canonical(values))
	if err != nil {
		return "", fmt.Errorf("make the fingerprint: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// canonical returns the node's values in a form that JSON writes in one way only: it sorts a map's keys.
func canonical(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for k, v := range pairs(n) {
			m[k.Value] = canonical(v)
		}
		return m
	case yaml.SequenceNode:
		l := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			l = append(l, canonical(item))
		}
		return l
	default:
		return n.ShortTag() + " " + n.Value
	}
}
