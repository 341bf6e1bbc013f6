// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const manifests = `kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: manager}
rules:
- {apiGroups: [""], resources: [pods], verbs: [create, delete]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [patch]}
---
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: people}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [list]}
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
subjects:
- {kind: ServiceAccount, name: proxy-operator-controller-manager, namespace: proxy-operator-system}
`

func suiteWith(t *testing.T, exceptions, auditLog string) *suite {
	t.Helper()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	return &suite{options: options{
		manifests: file("manifests.yaml", manifests), exceptions: file("exceptions.txt", exceptions), auditLog: file("audit.log", auditLog),
	}}
}

func TestRightsAreComparedWithTheirUse(t *testing.T) {
	create, remove, count := right{"", "pods", "create"}, right{"", "pods", "delete"}, right{"events.k8s.io", "events", "patch"}
	for name, c := range map[string]struct {
		why, exceptions string
		used            []right
		want            string
	}{
		"all are used":                      {"what is granted to people doesn't count", "", []right{create, remove, count}, ""},
		"one is not used":                   {"it should go", "", []right{create, count}, "delete pods: granted, and never used"},
		"one is not used and excused":       {"there is a reason", "# why\npatch events.events.k8s.io: when it repeats\n", []right{create, remove}, ""},
		"one is used and excused":           {"a run may use what another doesn't", "patch events.events.k8s.io: when it repeats\n", []right{create, remove, count}, ""},
		"an exception that is not granted":  {"the list must not rot", "get nodes: once\n", []right{create, remove, count}, "get nodes: excused, and not granted"},
		"an exception without a reason":     {"that is what the list is for", "delete pods\n", []right{create, count}, "has no reason"},
		"an exception with an empty reason": {"likewise", "delete pods: \n", []right{create, count}, "has no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			used := map[right]int{}
			for _, r := range c.used {
				used[r]++
			}
			err := suiteWith(t, c.exceptions, "").unused(used)
			if c.want == "" {
				require.NoError(t, err, c.why)
				return
			}
			require.ErrorContains(t, err, c.want, c.why)
		})
	}
}

func TestTheAuditLogTellsWhatWasUsedAndRefused(t *testing.T) {
	line := func(user, rest string) string { return `{"user":{"username":"` + user + `"},` + rest + "}\n" }
	log := line(serviceAccount, `"verb":"create","objectRef":{"resource":"pods"},"responseStatus":{"code":201},"annotations":{"authorization.k8s.io/decision":"allow"}`) +
		line(serviceAccount, `"verb":"create","objectRef":{"resource":"pods"},"responseStatus":{"code":403,"message":"exceeded quota"},"annotations":{"authorization.k8s.io/decision":"allow"}`) +
		line(serviceAccount, `"verb":"patch","objectRef":{"resource":"proxies","subresource":"status","apiGroup":"g"},"responseStatus":{"code":200}`) +
		line("somebody", `"verb":"list","objectRef":{"resource":"nodes"},"annotations":{"authorization.k8s.io/decision":"forbid"}`)
	used := map[right]int{}
	refused, err := suiteWith(t, "", log).audit(used)
	require.NoError(t, err)
	require.Empty(t, refused, "a quota's refusal isn't one of rights, and others' requests aren't ours")
	require.Equal(t, map[right]int{{"", "pods", "create"}: 2, {"g", "proxies/status", "patch"}: 1}, used)

	refused, err = suiteWith(t, "", log+strings.ReplaceAll(line("somebody", `"verb":"list","objectRef":{"resource":"nodes"},"annotations":{"authorization.k8s.io/decision":"forbid"}`), "somebody", serviceAccount)).audit(used)
	require.NoError(t, err)
	require.Len(t, refused, 1)

	_, err = suiteWith(t, "", "").audit(map[right]int{})
	require.ErrorContains(t, err, "doesn't know the operator")
}
