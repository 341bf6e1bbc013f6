// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// request is one that a manager sent, as the API server saw it.
type request struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	line []byte
}

// right is what a rule grants, or what a request needed.
func (r request) right() right {
	resource := r.Object.Resource
	if r.Object.Subresource != "" {
		resource += "/" + r.Object.Subresource
	}
	return right{r.Object.APIGroup, resource, r.Verb}
}

// audited has the API server write down what ServiceAccounts ask for.
func audited(env *envtest.Environment) {
	policy := filepath.Join("testdata", "audit-policy.yaml")
	env.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", cluster.auditLog)
}

// requestsOf lists what a user has asked of the API server so far.
func requestsOf(t *testing.T, user string) []request {
	t.Helper()
	raw, err := os.ReadFile(cluster.auditLog)
	require.NoError(t, err)
	var all []request
	for line := range bytes.Lines(raw) {
		if !bytes.HasSuffix(line, []byte("\n")) || !bytes.Contains(line, []byte(user)) {
			continue // the last one may be half written
		}
		r := request{line: line}
		require.NoError(t, json.Unmarshal(line, &r), "audit line: %s", line)
		if r.User.Username == user {
			all = append(all, r)
		}
	}
	return all
}

// requireNothingRefused checks that the user had every right that it tried to use.
func requireNothingRefused(t *testing.T, user string) {
	t.Helper()
	all := requestsOf(t, user)
	require.NotEmpty(t, all, "the audit log knows the user")
	for _, r := range all {
		require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, r.Response.Code, "%s %s", r.Verb, r.RequestURI)
	}
}
