// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

// deployment is what `make deploy` would apply of an overlay.
type deployment struct {
	objects    []*unstructured.Unstructured // namespaces, ServiceAccount and rights
	manager    appsv1.Deployment
	kubeconfig string // of the manager's ServiceAccount; there once it is applied
}

// render runs kustomize as the Makefile does, with the version of tools/go.mod.
func render(ctx context.Context, overlay string, change ...func(manifests []byte) []byte) (*deployment, error) {
	abs, err := filepath.Abs(overlay)
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "tools"), "tool", "kustomize", "build", abs)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("render %s: %w\n%s", overlay, err, stderr.Bytes())
	}
	for _, c := range change {
		out = c(out)
	}
	d := &deployment{}
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := docs.Decode(o); {
		case errors.Is(err, io.EOF):
			return d, nil
		case err != nil:
			return nil, fmt.Errorf("read what kustomize made of %s: %w", overlay, err)
		}
		switch o.GetKind() {
		case "Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
			d.objects = append(d.objects, o)
		case "Deployment":
			if !strings.HasSuffix(o.GetName(), "controller-manager") {
				continue // the judge
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d.manager); err != nil {
				return nil, err
			}
		}
	}
}

// apply creates what was rendered, and the kubeconfig of the manager.
func (d *deployment) apply(ctx context.Context) error {
	for _, o := range d.objects {
		if err := cluster.admin.Create(ctx, o); err != nil {
			return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	token, err := apiserver.Token(ctx, cluster.admin, d.namespace(), d.manager.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	d.kubeconfig, err = apiserver.WriteKubeconfig(cluster.dir, cluster.config, token)
	return err
}

func (d *deployment) namespace() string { return d.manager.Namespace }

// args are the manager's, as its Deployment has them and the kubelet expands them.
func (d *deployment) args() []string {
	c := d.manager.Spec.Template.Spec.Containers[0]
	var args []string
	for _, a := range c.Args {
		for _, e := range c.Env {
			a = strings.ReplaceAll(a, "$("+e.Name+")", e.Value)
		}
		args = append(args, a)
	}
	return args
}

// user is the name by which the API server knows the manager.
func (d *deployment) user() string {
	return "system:serviceaccount:" + d.namespace() + ":" + d.manager.Spec.Template.Spec.ServiceAccountName
}

// right is one verb on one resource.
type right struct{ group, resource, verb string }

// grant is a right in a namespace, or in all of them.
type grant struct {
	right
	namespace string
}

// granted lists the rights that the manager's ServiceAccount gets, with the kind and name of the role.
func (d *deployment) granted(t *testing.T) map[grant]string {
	t.Helper()
	roles := map[string]rbacv1.ClusterRole{}
	bound := map[string]bool{}
	for _, o := range d.objects {
		id := o.GetKind() + " " + o.GetName()
		switch o.GetKind() {
		case "Role", "ClusterRole":
			var r rbacv1.ClusterRole
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r))
			roles[id] = r
		case "RoleBinding", "ClusterRoleBinding":
			var b rbacv1.ClusterRoleBinding
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b))
			for _, s := range b.Subjects {
				id := b.RoleRef.Kind + " " + b.RoleRef.Name
				bound[id] = bound[id] || s.Namespace == d.namespace() && s.Name == d.manager.Spec.Template.Spec.ServiceAccountName
			}
		}
	}
	rights := map[grant]string{}
	for id, role := range roles {
		if bound[id] {
			for _, r := range rightsOf(role.Rules) {
				rights[grant{r, role.Namespace}] = id
			}
		}
	}
	return rights
}

func rightsOf(rules []rbacv1.PolicyRule) []right {
	var all []right
	for _, rule := range rules {
		for _, g := range rule.APIGroups {
			for _, r := range rule.Resources {
				for _, v := range rule.Verbs {
					all = append(all, right{g, r, v})
				}
			}
		}
	}
	return all
}

// serviceAccount makes one in the namespace and returns its token.
func serviceAccount(t *testing.T, namespace, name string) string {
	t.Helper()
	require.NoError(t, cluster.admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	token, err := apiserver.Token(t.Context(), cluster.admin, namespace, name)
	require.NoError(t, err)
	return token
}
