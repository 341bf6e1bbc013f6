// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const serviceAccount = "system:serviceaccount:" + system + ":" + manager

// right is a verb on a resource. A right that is granted on one name isn't told from one on all.
type right struct{ group, resource, verb string }

func (r right) String() string {
	if r.group == "" {
		return r.verb + " " + r.resource
	}
	return r.verb + " " + r.resource + "." + r.group
}

// rights compares what the operator may do with what it did, by the API server's audit log.
func (s *suite) rights(ctx context.Context) {
	used := map[right]int{}
	s.check(ctx, "the operator was refused nothing", func(context.Context) error {
		refused, err := s.audit(used)
		if err == nil && len(refused) > 0 {
			err = fmt.Errorf("%d requests were refused, such as:\n%s", len(refused), refused[0])
		}
		return err
	})
	s.check(ctx, "it used every right that it has, but for justified exceptions", func(context.Context) error {
		return s.unused(used)
	})
}

// event is a line of the audit log.
type event struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Response struct {
		Code    int    `json:"code"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// audit counts the rights that were used, and returns the requests that the API server's authorizer refused. A quota and
// a Pod Security Standard answer 403 too; those had the right.
func (s *suite) audit(used map[right]int) (refused []string, err error) {
	text, err := os.ReadFile(s.options.auditLog)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	for line := range bytes.Lines(text) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if e.User.Username != serviceAccount {
			continue
		}
		if e.Annotations["authorization.k8s.io/decision"] == "forbid" || e.Response.Code == http.StatusUnauthorized {
			refused = append(refused, strings.TrimSpace(string(line)))
			continue
		}
		resource := e.Object.Resource
		if e.Object.Subresource != "" {
			resource += "/" + e.Object.Subresource
		}
		used[right{e.Object.APIGroup, resource, e.Verb}]++
	}
	if len(used) == 0 {
		return nil, errors.New("the audit log doesn't know the operator")
	}
	return refused, nil
}

// unused compares granted rights with used ones.
func (s *suite) unused(used map[right]int) error {
	granted, err := s.granted()
	if err != nil {
		return err
	}
	excused, err := s.excused()
	if err != nil {
		return err
	}
	var wrong []string
	for _, r := range granted {
		if used[r] == 0 && !excused[r.String()] {
			wrong = append(wrong, r.String()+": granted, and never used")
		}
		delete(excused, r.String())
	}
	for name := range excused {
		wrong = append(wrong, name+": excused, and not granted")
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// granted are the rights of the operator's ServiceAccount, by the manifests.
func (s *suite) granted() ([]right, error) {
	objects, err := s.rendered()
	if err != nil {
		return nil, err
	}
	roles, bound := map[string]rbacv1.ClusterRole{}, map[string]bool{}
	for _, o := range objects {
		switch id := o.GetKind() + " " + o.GetName(); o.GetKind() {
		case "Role", "ClusterRole":
			var r rbacv1.ClusterRole // a Role has the same rules
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r); err != nil {
				return nil, fmt.Errorf("read %s: %w", id, err)
			}
			roles[id] = r
		case "RoleBinding", "ClusterRoleBinding":
			var b rbacv1.ClusterRoleBinding
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b); err != nil {
				return nil, fmt.Errorf("read %s: %w", id, err)
			}
			for _, subject := range b.Subjects {
				id := b.RoleRef.Kind + " " + b.RoleRef.Name
				bound[id] = bound[id] || subject.Namespace == system && subject.Name == manager
			}
		}
	}
	var all []right
	for id, role := range roles {
		if bound[id] {
			all = append(all, rightsOf(role.Rules)...)
		}
	}
	slices.SortFunc(all, func(a, b right) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(all), nil
}

func rightsOf(rules []rbacv1.PolicyRule) []right {
	var all []right
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, right{group, resource, verb})
				}
			}
		}
	}
	return all
}

// excused reads the exceptions: a right, a colon, and the reason.
func (s *suite) excused() (map[string]bool, error) {
	file, err := os.Open(s.options.exceptions)
	if err != nil {
		return nil, fmt.Errorf("read the exceptions: %w", err)
	}
	defer func() { _ = file.Close() }()
	all := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("read the exceptions: %q has no reason", line)
		}
		all[name] = true
	}
	return all, lines.Err()
}
