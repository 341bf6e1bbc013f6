// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	statesPage   = "docs/states.md"
	architecture = "docs/architecture.md"
	apiDir       = "api/v1alpha1"
	loopDir      = "controllers"
)

func TestStatesListsWhatTheCodeHas(t *testing.T) {
	classes := []string{}
	for _, c := range providers.Classes() {
		classes = append(classes, string(c))
	}
	tests := map[string]struct {
		why     string
		heading string
		want    []string
	}{
		"condition types": {"a user meets them in kubectl describe", "## Conditions", withPrefix(t, apiDir, "Condition")},
		"reasons":         {"a reason without an explanation is a dead end", "## Reasons", withPrefix(t, apiDir, "Reason")},
		"phases":          {"kubectl get shows them", "## Phases", withPrefix(t, apiDir, "Phase")},
		"steps":           {"the rules speak of them", "## Steps", verbs(t)},
		"causes":          {"Events and a metric carry them", "## Causes", withPrefix(t, loopDir, "Cause")},
		"error classes":   {"a metric carries them, and provider authors choose among them", "## Classes of errors", classes},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.ElementsMatch(t, tt.want, firstColumn(t, statesPage, tt.heading), "%s: %s", tt.heading, tt.why)
		})
	}
}

// verbs are the string constants whose value is their name, in the file of the rules.
func verbs(t *testing.T) []string {
	t.Helper()
	var out []string
	for name, value := range constants(t, loopDir) {
		if name == value {
			out = append(out, value)
		}
	}
	require.NotEmpty(t, out)
	return out
}

func TestStatesTellsTheRemedyOfEveryClass(t *testing.T) {
	reasons, classes := constants(t, apiDir), constants(t, "providers")
	want := map[string][]string{}
	for _, clause := range cases(t, function(t, loopDir, "remedyFor")) {
		f := fieldsOf(clause)
		for _, class := range clause.List {
			want[classes[last(class)]] = []string{reasons[f["reason"]], yes(f["stalled"]), yes(f["latch"])}
		}
	}
	got := map[string][]string{}
	for _, r := range rows(section(t, statesPage, "## Classes of errors")) {
		require.Len(t, r, 6)
		got[code(r[0])[0]] = []string{code(r[1])[0], r[2], r[5]}
	}
	require.Equal(t, want, got)
}

func yes(value string) string {
	if value == "true" {
		return "yes"
	}
	return "no"
}

func TestArchitectureTellsTheRulesInTheirOrder(t *testing.T) {
	tests := map[string]struct {
		why     string
		list    string
		heading string
	}{
		"of a Proxy that lives":            {"the first rule that applies wins", "managedRules", "### The rules of `decide`"},
		"of a Proxy that is being deleted": {"the finalizer hangs on their order", "deleteRules", "## 4. `reconcileDelete` and `reconcileExternal`"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []ruleOf
			for _, r := range rows(section(t, architecture, tt.heading)) {
				require.GreaterOrEqual(t, len(r), 5)
				got = append(got, ruleOf{r[1], code(r[3])[0]})
			}
			require.Equal(t, rulesOf(t, tt.list), got, tt.why)
		})
	}
}

// ruleOf is a rule's name and the verb of its step.
type ruleOf struct{ name, verb string }

// rulesOf reads a list of rules: {"name", when, then}.
func rulesOf(t *testing.T, list string) []ruleOf {
	t.Helper()
	var out []ruleOf
	ast.Inspect(function(t, loopDir, list).Body, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || lit.Type != nil || len(lit.Elts) != 3 {
			return true
		}
		name, err := strconv.Unquote(last(lit.Elts[0]))
		require.NoError(t, err)
		out = append(out, ruleOf{name, verbOf(t, lit.Elts[2])})
		return false
	})
	require.NotEmpty(t, out, list)
	return out
}

// verbOf finds the verb in a rule's step, or in the function that makes the step.
func verbOf(t *testing.T, then ast.Expr) string {
	t.Helper()
	verb := fieldsOf(then)["Do"]
	ast.Inspect(then, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && verb == "" && (name.Name == "destroy" || name.Name == "spare") {
			verb = stepMadeBy(t, name.Name)
		}
		return verb == ""
	})
	require.NotEmpty(t, verb, "a rule whose step this test can't read")
	return verb
}

func stepMadeBy(t *testing.T, name string) string {
	t.Helper()
	for _, f := range functions(t, loopDir, name) {
		if do := fieldsOf(f.Body)["Do"]; do != "" {
			return do
		}
	}
	return ""
}

func TestStatesListsThePhasesInTheirOrder(t *testing.T) {
	var order []string
	phases := constants(t, apiDir)
	for _, clause := range cases(t, function(t, loopDir, "computePhase")) {
		for _, statement := range clause.Body {
			name := returned(statement)
			require.True(t, strings.HasPrefix(name, "Phase"), "computePhase returns a constant in every case")
			order = append(order, phases[name])
		}
	}
	var listed []string // one of them for two reasons
	for _, r := range rows(section(t, statesPage, "## Phases")) {
		listed = append(listed, code(r[0])...)
	}
	require.Equal(t, order, listed, "the page lists the phases in the order in which they are asked for")
}
