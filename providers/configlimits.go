// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"math"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// limitsSection is an account's limits as they are written.
type limitsSection struct {
	CallsPerSecond float64 `yaml:"callsPerSecond"`
	Burst          int     `yaml:"burst"`
	MaxInstances   int     `yaml:"maxInstances"`
}

// limits refuses what isn't a positive number. 0 would read as none allowed, and be as good as no bound.
func limits(n *yaml.Node, line int, path string) []error {
	if errs := ofType(reflect.TypeFor[limitsSection]())(n, line, path); len(errs) > 0 {
		return errs
	}
	var errs []error
	for k, v := range pairs(n) {
		var number float64
		if isNull(v) {
			continue
		}
		if err := v.Decode(&number); err != nil || !(number > 0) || math.IsInf(number, 0) {
			errs = append(errs, fieldErrorf(k.Line, within(path, k.Value),
				"must be more than 0, not %s; leave it out for the default", kindOf(v)))
		} else if k.Value == "callsPerSecond" && (number < 0.1 || number > 1000) {
			errs = append(errs, fieldErrorf(k.Line, within(path, k.Value), "must be from 0.1 to 1000, not %s", v.Value))
		}
	}
	return errs
}

// limitsOf reads what limits has checked.
func limitsOf(n *yaml.Node) Limits {
	var s limitsSection
	if n == nil || n.Decode(&s) != nil {
		return Limits{}
	}
	return Limits(s)
}

// orphans is a mode of the collector.
func orphans(n *yaml.Node, line int, path string) []error {
	if errs := ofType(reflect.TypeFor[string]())(n, line, path); len(errs) > 0 {
		return errs
	}
	if !slices.Contains(OrphanModes(), OrphanMode(n.Value)) {
		names := make([]string, 0, len(OrphanModes()))
		for _, m := range OrphanModes() {
			names = append(names, string(m))
		}
		return one(line, path, "%q is not known; use one of: %s", n.Value, listed(names))
	}
	return nil
}

// orphansOf reads the mode. Where it isn't written, only what costs no money beyond this machine and this cluster is
// deleted unasked.
func orphansOf(n *yaml.Node, typeName string) OrphanMode {
	switch mode := OrphanMode(text(n)); {
	case mode != "":
		return mode
	case typeName == "local" || typeName == "kubernetes":
		return OrphansDelete
	default:
		return OrphansReport
	}
}
