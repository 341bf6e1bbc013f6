// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// generateRules makes a named template of the rules of each role in the folder, so that the chart's rights can't differ from those
// of config/rbac, which come from the markers in the code.
func generateRules(folder, to string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*role.yaml"))
	if err != nil {
		return err
	}
	templates := map[string]string{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		for doc := range bytes.SplitSeq(raw, []byte("\n---\n")) {
			var role rbacv1.ClusterRole // a Role has the same fields
			if err := yaml.UnmarshalStrict(doc, &role); err != nil {
				return fmt.Errorf("%s: %w", f, err)
			}
			if len(role.Rules) == 0 {
				return fmt.Errorf("%s: %q has no rules", f, role.Name)
			}
			rules, err := yaml.Marshal(role.Rules)
			if err != nil {
				return err
			}
			templates[role.Name] = literal(string(rules))
		}
	}
	var out strings.Builder
	out.WriteString("{{- /* Generated from config/rbac by make manifests. DO NOT EDIT. */ -}}\n")
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		fmt.Fprintf(&out, "\n{{- define \"proxy-operator.rules.%s\" -}}\n%s{{- end -}}\n", name, templates[name])
	}
	return write(to, out.String())
}
