// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

type common struct {
	Zone string `yaml:"zone"`
}

type network struct {
	Name string            `yaml:"name"`
	Tags map[string]string `yaml:"tags"`
	Deep *network          `yaml:"deep"`
}

// section has a field of every kind that a provider may want.
type section struct {
	Common   common             `yaml:",inline"`
	In       network            `yaml:"in"`
	Pointer  *network           `yaml:"pointer"`
	List     []network          `yaml:"list"`
	Lists    [][]int            `yaml:"lists"`
	Map      map[string]network `yaml:"map"`
	Numbers  map[int]string     `yaml:"numbers"`
	Any      any                `yaml:"any"`
	Small    int8               `yaml:"small"`
	Unsigned uint16             `yaml:"unsigned"`
	Ratio    float64            `yaml:"ratio"`
	On       bool               `yaml:"on"`
	Wait     time.Duration      `yaml:"wait"`
	Since    time.Time          `yaml:"since"`
	Address  netip.Addr         `yaml:"address"`
	Untagged string
	Hidden   string `yaml:"-"`
}

// decoded parses a file with one account of type x, whose section is the lines, indented, from line 5 on. The section's
// values before are the defaults.
func decoded(into any, l ...string) error {
	file := lines("accounts:", "- name: a", "  type: x", "  x:")
	for _, one := range l {
		file += "    " + one + "\n"
	}
	_, err := providers.ParseConfig([]byte(file), map[string]providers.Factory{
		"x": func(_ string, s providers.Section) (providers.Provider, []string, error) {
			return nil, nil, s.Decode(into)
		},
	})
	return err
}

func TestASectionIsStrictAtEveryDepth(t *testing.T) {
	cases := map[string]struct {
		why  string
		file []string
		want []string // the whole error, line by line; the path starts with accounts[0].x
	}{
		"a field that a struct within hasn't": {
			why: "a typing error", file: []string{"in: {bogus: 3}"},
			want: []string{"5: in.bogus: is not a field; known here: name, tags, deep"},
		},
		"a field that a struct behind a pointer hasn't": {
			why: "a typing error", file: []string{"pointer:", "  deep:", "    bogus: 3"},
			want: []string{"7: pointer.deep.bogus: is not a field; known here: name, tags, deep"},
		},
		"a field that a struct of a list hasn't": {
			why: "a typing error", file: []string{"list:", "- name: a", "- name: b", "  bogus: 3"},
			want: []string{"8: list[1].bogus: is not a field; known here: name, tags, deep"},
		},
		"a field that a struct of a map hasn't": {
			why: "a typing error", file: []string{"map:", "  eu:", "    bogus: 3"},
			want: []string{"7: map.eu.bogus: is not a field; known here: name, tags, deep"},
		},
		"a field that is kept from the file": {
			why: "it is no field of the file", file: []string{"Hidden: x", "hidden: x"},
			want: []string{
				"5: Hidden: is not a field; known here: zone, in, pointer, list, lists, map, numbers, any, small, unsigned, ratio, on, wait, since, address, untagged",
				"6: hidden: is not a field; known here: zone, in, pointer, list, lists, map, numbers, any, small, unsigned, ratio, on, wait, since, address, untagged",
			},
		},
		"a field twice in a struct, a map and where anything goes": {
			why: "one of them is lost", file: []string{"in:", "  name: a", "  name: b", "  tags: {a: b, a: c}", "any:", "- {a: b,", "   a: c}"},
			want: []string{"7: in.name: is set twice", "8: in.tags.a: is set twice", "11: any[0].a: is set twice"},
		},
		"values on lines of their own": {
			why: "the line is the field's", file: []string{"small:", "  x", "in:", "", "  [a]", "list: [", "  {name: a},", "  3]"},
			want: []string{"5: small: must be a whole number of at most 8 bits, not \"x\"", "7: in: must be a mapping, not a list", "12: list[1]: must be a mapping, not \"3\""},
		},
		"items of lists in lists": {
			why: "the line is the item's", file: []string{"lists:", "- - 1", "  - b", "- [1,", "   2.5]", "- 3"},
			want: []string{
				"7: lists[0][1]: must be a whole number of at most 64 bits, not \"b\"",
				"9: lists[1][1]: must be a whole number of at most 64 bits, not \"2.5\"",
				"10: lists[2]: must be a list, not \"3\"",
			},
		},
		"values of wrong types": {
			why: "each says what to write", file: []string{"small: 128", "unsigned: -1", "ratio: x", "on: maybe", "wait: 30", "in: {name: {}}", "zone: [a]", "numbers: {a: b}"},
			want: []string{
				"5: small: must be a whole number of at most 8 bits, not \"128\"",
				"6: unsigned: must be a whole number of at most 16 bits, 0 or more, not \"-1\"",
				"7: ratio: must be a number, not \"x\"",
				"8: on: must be true or false, not \"maybe\"",
				"9: wait: must be a duration like 30s, not \"30\"",
				"10: in.name: must be a string, not a mapping",
				"11: zone: must be a string, not a list",
				"12: numbers.a: must be a whole number of at most 64 bits, not \"a\"",
			},
		},
		"a fraction for a whole number": {
			why: "yaml would cut it", file: []string{"small: 3.7", "unsigned: 1.0"},
			want: []string{"5: small: must be a whole number of at most 8 bits, not \"3.7\"", "6: unsigned: must be a whole number of at most 16 bits, 0 or more, not \"1.0\""},
		},
		"a type that reads itself": {
			why: "it has words of its own", file: []string{"address: x", "since: [3]"},
			want: []string{`5: address: ParseAddr("x"): unable to parse IP`, "6: since: must be a value of type time.Time, not a list"},
		},
		"a list's item and a map's entry without value": {
			why: "yaml would make something empty of it", file: []string{"list:", "- name: a", "-", "in: {tags: {a: }}", "any: [~]"},
			want: []string{"7: list[1]: has no value; write one or leave it out", "8: in.tags.a: has no value; write one or leave it out", "9: any[0]: has no value; write one or leave it out"},
		},
		"aliases, merge keys, tags and names that are no words": {
			why: "a line would mean what isn't written there", file: []string{"in: &x {name: a}", "pointer: *x", "map: {<<: {a: *x}}", "zone: !!str 3", "any: {? [a] : b, ~: c, !t d: e, f: *x}"},
			want: []string{
				"6: pointer: is the alias *x; write the value itself",
				"7: map.<<: is a merge key; write the fields themselves",
				"8: zone: has the tag \"!!str\"; write the value alone",
				"9: any: has a name that is no plain word", "9: any: has a name that is no plain word", "9: any: has a name that is no plain word",
				"9: any.f: is the alias *x; write the value itself",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got section
			want := "operator configuration: "
			for i, w := range c.want {
				line, rest, _ := strings.Cut(w, ": ")
				if i > 0 {
					want += "\n"
				}
				want += "line " + line + ": accounts[0].x." + rest
			}
			require.EqualError(t, decoded(&got, c.file...), want, c.why)
			require.Equal(t, section{}, got, "nothing is filled in")
		})
	}
}

func TestASectionIsDecoded(t *testing.T) {
	since := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	defaults := func() section {
		return section{
			Common: common{Zone: "z"}, In: network{Tags: map[string]string{"a": "b"}}, List: []network{{Name: "n"}},
			Pointer: &network{Name: "p"}, Small: 1, Any: "any", Wait: time.Second, Hidden: "kept",
		}
	}
	got := defaults()
	require.NoError(t, decoded(&got))
	require.Equal(t, defaults(), got, "a section that is null is as good as a missing one")

	require.NoError(t, decoded(&got, "zone: ~", "in: {tags: null}", "list:", "pointer:", "small: ~", "any:", "wait: null"))
	require.Equal(t, defaults(), got, "and so is a field that is null")

	got = section{}
	require.NoError(t, decoded(&got, "zone: 1.10", "in: {name: &unused yes, tags: {'<<': a, b.c/d: ''}, deep: {deep: {name: x}}}", "lists: [[], [1, 0x10]]",
		"map: {eu: {name: x}}", "numbers: {1: a}", "any: {a: [1, b, {c: ~}]}", "small: -128", "unsigned: 65535", "ratio: 3", "on: true",
		"wait: 1m30s", "since: 2026-01-02", "address: ::1", "untagged: x"))
	require.Equal(t, section{
		Common: common{Zone: "1.10"},
		In:     network{Name: "yes", Tags: map[string]string{"<<": "a", "b.c/d": ""}, Deep: &network{Deep: &network{Name: "x"}}},
		Lists:  [][]int{{}, {1, 16}}, Map: map[string]network{"eu": {Name: "x"}}, Numbers: map[int]string{1: "a"},
		Any: map[string]any{"a": []any{1, "b", map[string]any{}}}, Small: -128, Unsigned: 65535, Ratio: 3, On: true,
		Wait: 90 * time.Second, Since: since, Address: netip.MustParseAddr("::1"), Untagged: "x",
	}, got)

	require.ErrorContains(t, decoded(section{}, "zone: a"), "line 4: accounts[0].x: can't be decoded into providers_test.section")
	require.ErrorContains(t, decoded(nil, "zone: a"), "line 4: accounts[0].x: can't be decoded into <nil>")
	require.NoError(t, providers.Section{}.Decode(&got), "a provider's test needs no file")
	require.EqualError(t, providers.Section{}.Errorf("zone", "is bad"), "zone: is bad")
}

func TestAProvidersErrorHasTheLineOfItsField(t *testing.T) {
	file := lines("accounts:", "- {name: b, type: x}", "- name: a", "  type: x", "  x:", "    zones:", "    - a", "    - b", "    list:", "    - name: c", "      tags:", "        k:", "          v")
	cause := errors.New("why")
	cases := map[string]struct {
		why  string
		file string
		err  func(s providers.Section) error
		want string
	}{
		"a field":                      {"its own line", file, func(s providers.Section) error { return s.Errorf("list", "x") }, "line 9: accounts[1].x.list: x"},
		"an item":                      {"not that of the list", file, func(s providers.Section) error { return s.Errorf("zones[1]", "x") }, "line 8: accounts[1].x.zones[1]: x"},
		"an item that isn't there":     {"what is around it", file, func(s providers.Section) error { return s.Errorf("zones[2]", "x") }, "line 6: accounts[1].x.zones[2]: x"},
		"a field within":               {"not that of its value", file, func(s providers.Section) error { return s.Errorf("list[0].tags.k", "x") }, "line 12: accounts[1].x.list[0].tags.k: x"},
		"a field that is missing":      {"what is around it", file, func(s providers.Section) error { return s.Errorf("list[0].size", "x") }, "line 10: accounts[1].x.list[0].size: x"},
		"a field of a word":            {"what is around it", file, func(s providers.Section) error { return s.Errorf("zones[0].a", "x") }, "line 7: accounts[1].x.zones[0].a: x"},
		"a field of the section":       {"the section's name", file, func(s providers.Section) error { return s.Errorf("project", "x") }, "line 5: accounts[1].x.project: x"},
		"the section itself":           {"the section's name", file, func(s providers.Section) error { return s.Errorf("", "x") }, "line 5: accounts[1].x: x"},
		"a section that isn't there":   {"the account's line", lines("accounts:", "", "- name: a", "  type: x"), func(s providers.Section) error { return s.Errorf("project", "x") }, "line 3: accounts[0].x.project: x"},
		"a section that is null":       {"the section's name", lines("accounts:", "- name: a", "  type: x", "  x: ~"), func(s providers.Section) error { return s.Errorf("project", "x") }, "line 4: accounts[0].x.project: x"},
		"an error without a line":      {"the section's", file, func(providers.Section) error { return cause }, "line 5: accounts[1].x: why"},
		"errors with and without":      {"all are told, by line", file, func(s providers.Section) error { return errors.Join(s.Errorf("list", "x: %w", cause), cause) }, "line 5: accounts[1].x: why\nline 9: accounts[1].x.list: x: why"},
		"errors joined within another": {"its words are kept", file, func(s providers.Section) error { return errors.Join(errors.Join(cause), s.Errorf("zones[0]", "y")) }, "line 5: accounts[1].x: why\nline 7: accounts[1].x.zones[0]: y"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := providers.ParseConfig([]byte(c.file), map[string]providers.Factory{
				"x": func(name string, s providers.Section) (providers.Provider, []string, error) {
					if name == "b" {
						return nil, nil, nil
					}
					return nil, nil, c.err(s)
				},
			})
			require.EqualError(t, err, "operator configuration: "+c.want, c.why)
			if strings.Contains(c.want, cause.Error()) {
				require.ErrorIs(t, err, cause)
			}
		})
	}
}
