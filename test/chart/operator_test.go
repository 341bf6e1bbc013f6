// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// world is where an operator's machines are; operators come and go.
type world struct {
	t          *testing.T
	dir, state string
	judge      string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp(cluster.dir, "world-")
	require.NoError(t, err)
	w := &world{t: t, dir: dir, state: filepath.Join(dir, "state")}
	w.judge, err = operator.FreeAddress()
	require.NoError(t, err)
	config := fmt.Sprintf("accounts:\n- name: local\n  type: local\n  local: {stateDir: %q}\n", w.state)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "operator.yaml"), []byte(config), 0o600))
	t.Cleanup(func() { require.NoError(t, operator.EndMachines(cleanup(t), w.state)) })
	return w
}

// machines counts those that run.
func (w *world) machines() int {
	w.t.Helper()
	all, err := operator.RunningMachines(w.t.Context(), w.state)
	require.NoError(w.t, err)
	return len(all)
}

// process is an operator at work.
type process struct {
	*child.Child
	t       *testing.T
	removed bool // its release may be gone
}

// start runs the operator of a release: with the arguments of its Deployment, as its ServiceAccount, and with the provider
// local on loopback. It is ended with the test.
func (w *world) start(r *installed) *process {
	w.t.Helper()
	return w.startWith(r, filepath.Join(w.dir, "operator.yaml"))
}

// startAsInstalled is start with the chart's own accounts.
func (w *world) startAsInstalled(r *installed) *process {
	w.t.Helper()
	var c corev1.ConfigMap
	require.NoError(w.t, cluster.admin.Get(w.t.Context(), client.ObjectKey{Namespace: r.ns, Name: "proxy-operator"}, &c))
	file := filepath.Join(w.dir, "installed.yaml")
	require.NoError(w.t, os.WriteFile(file, []byte(c.Data["operator.yaml"]), 0o600))
	return w.startWith(r, file)
}

func (w *world) startWith(r *installed, config string) *process {
	w.t.Helper()
	var d appsv1.Deployment
	require.NoError(w.t, cluster.admin.Get(w.t.Context(), client.ObjectKey{Namespace: r.ns, Name: "proxy-operator"}, &d))
	pod := d.Spec.Template.Spec
	kubeconfig, err := kubeconfigOf(w.t.Context(), r.ns, pod.ServiceAccountName)
	require.NoError(w.t, err)
	out, err := os.CreateTemp(w.dir, "manager-*.log")
	require.NoError(w.t, err)
	require.NoError(w.t, out.Close())
	p := &process{t: w.t}
	r.operator = p
	args := slices.DeleteFunc(slices.Clone(pod.Containers[0].Args), func(a string) bool { return strings.HasPrefix(a, "--health-deny-cidr") })
	p.Child, err = child.Start(child.Command{
		Name: "the operator", Path: cluster.binary, Log: out.Name(), Env: []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH")},
		Args: append(args,
			"--kubeconfig="+kubeconfig, "--config="+config,
			"--leader-election-namespace="+r.ns, "--operator-namespace="+r.ns, // a pod knows its own
			"--health-probe-bind-address=0", "--metrics-bind-address=0", "--judge-bind-address="+w.judge, "--judge-url=http://"+w.judge+"/",
			"--health-deny-cidr="+operator.LinkLocal, "--health-interval=1s", "--health-timeout=1s"),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(p.stop)
	return p
}

// stop ends it as a rollout does, and looks at what it said.
func (p *process) stop() {
	p.t.Helper()
	if !p.Ended() {
		require.NoError(p.t, p.Signal(syscall.SIGTERM))
		select {
		case <-p.Done():
		case <-time.After(operator.Grace):
			require.NoError(p.t, p.Kill())
			p.t.Error("the operator didn't end")
		}
	}
	if !p.removed {
		p.requireAllowed()
	}
	assert.Zero(p.t, p.ExitCode(), "%s", p.Output())
}

// requireAllowed looks that the rights of the chart have sufficed so far.
func (p *process) requireAllowed() {
	p.t.Helper()
	for line := range strings.Lines(p.Output()) {
		require.NotContains(p.t, line, "forbidden")
	}
}

// grown makes a Proxy's machine as old as if it had been made long ago: an operator that didn't make it itself waits for 90 s
// before it believes that a machine is gone.
func grown(t *testing.T, p *v1alpha1.Proxy) *v1alpha1.Proxy {
	t.Helper()
	intent := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationIntent]), &intent))
	intent["at"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	raw, err := json.Marshal(intent)
	require.NoError(t, err)
	was := p.DeepCopy()
	p.Annotations[v1alpha1.AnnotationIntent] = string(raw)
	require.NoError(t, cluster.admin.Patch(t.Context(), p, client.MergeFrom(was)))
	return p
}

// proxy makes one of the provider local.
func proxy(t *testing.T, ns, name string) *v1alpha1.Proxy {
	t.Helper()
	return proxyOf(t, "local", ns, name)
}

func proxyOf(t *testing.T, account, ns, name string) *v1alpha1.Proxy {
	t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: v1alpha1.ProxySpec{Provider: account}}
	require.NoError(t, cluster.admin.Create(t.Context(), p))
	return p
}

// ready returns the Proxy once requests get through it.
func ready(t *testing.T, p *v1alpha1.Proxy) *v1alpha1.Proxy {
	t.Helper()
	found := &v1alpha1.Proxy{}
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(p), found))
		require.True(c, meta.IsStatusConditionTrue(found.Status.Conditions, v1alpha1.ConditionReady), "%+v", found.Status.Conditions)
	})
	return found
}
