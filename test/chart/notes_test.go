// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheNotesFitTheValues(t *testing.T) {
	cases := map[string]struct{ values, says, saysNot string }{
		"as it comes":              {"{}", "spec: {provider: kubernetes}", "WARNING"},
		"all namespaces":           {"{}", "watches all namespaces", "the namespaces"},
		"two of the same instance": {"{}", "in whatever namespace, give each a value `instance`", ""},
		"an account of ciphers":    {"providers: {kubernetes: {enabled: false}, '123': {type: kubernetes}}", `spec: {provider: "123"}`, ""},
		"nobody at work":           {"replicas: 0", "WARNING: no operator runs", ""},
		"somebody else scales":     {"replicas: null", "exit-1", "WARNING"},
		"no judge at work":         {"judge: {replicas: 0}", "WARNING: no judge runs", ""},
		"chosen namespaces":        {"watchNamespaces: [a, b]", "watches the namespaces a, b", "watches all"},
		"a first Proxy there":      {"watchNamespaces: [a, b]", "kubectl --namespace a wait", "--namespace default"},
		"one operator of several":  {"watchNamespaces: [a]", "give each a value `instance`", ""},
		"an instance of its own":   {"watchNamespaces: [a]\ninstance: a", "exit-1", "give each a value `instance`"},
		"no accounts":              {"providers: {kubernetes: {enabled: false}}", "only Proxies of mode External work", "exit-1"},
		"nothing to prove with":    {"judge: {enabled: false}", "WARNING: there is neither a judge nor a target", ""},
		"another judge":            {"judge: {enabled: false, url: http://judge.example.com/}", "exit-1", "WARNING"},
		"no metrics, unasked":      {"watchNamespaces: [a]", "No metrics are served", ""},
		"no metrics, as asked":     {"metrics: {serve: none}", "exit-1", "No metrics are served"},
		"metrics for everybody":    {"metrics: {serve: http}", "Everybody who reaches port 8443", ""},
		"Proxies that stay":        {"{}", "machines go on costing money", "deletes every Proxy"},
		"Proxies that are deleted": {"uninstall: {policy: Delete, timeout: 9m}", "waits 9m for that", "go on costing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := template(t, loadChart(t), parse(t, c.values))
			require.NoError(t, err)
			require.Contains(t, r.Info.Notes, c.says)
			if c.saysNot != "" {
				require.NotContains(t, r.Info.Notes, c.saysNot)
			}
		})
	}
}
