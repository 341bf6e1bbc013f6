// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// story is a Proxy's whole life, with all that the manager needs rights for.
func (f *fleet) story() {
	f.t.Helper()
	f.create("story-waits", cloudInitFrom("story"))
	f.await("story-waits", func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonCloudInitError)
	})
	f.userData("story", "#cloud-config\n# story-user-data-1")
	p := f.ready("story-waits")
	requireTraffic(f.t, p, login{})
	f.edit("story-waits", func(p *v1alpha1.Proxy) { port(3140)(&p.Spec) })
	p = f.replaced(p)
	f.userData("story", "#cloud-config\n# story-user-data-2")
	p = f.replaced(p)
	requireTraffic(f.t, p, login{})
	f.eventually("Created", p)
	f.delete("story-waits")
	f.awaitGone("story-waits", p.UID)
	f.podStory()
}

// podStory is the life of a Proxy in a pod, as far as it goes where nobody starts pods.
func (f *fleet) podStory() {
	f.t.Helper()
	p := f.create("story-pod", func(s *v1alpha1.ProxySpec) { s.Provider = "pods" })
	var pod corev1.Pod
	eventually(f.t, func(c *assert.CollectT) {
		require.NoError(c, cluster.admin.Get(f.t.Context(), client.ObjectKeyFromObject(p), p))
		require.NotEmpty(c, p.Status.ProviderID)
		_, name, ok := strings.Cut(p.Status.ProviderID, "pods://"+f.ns+"/")
		require.True(c, ok, p.Status.ProviderID)
		key := client.ObjectKey{Namespace: f.ns, Name: name}
		require.NoError(c, cluster.admin.Get(f.t.Context(), key, &pod))
		require.NoError(c, cluster.admin.Get(f.t.Context(), key, &corev1.Secret{}))
	})
	f.delete("story-pod")
	f.awaitGone("story-pod", p.UID)
	require.True(f.t, apierrors.IsNotFound(cluster.admin.Get(f.t.Context(), client.ObjectKeyFromObject(&pod), &pod)))
	require.True(f.t, apierrors.IsNotFound(cluster.admin.Get(f.t.Context(), client.ObjectKeyFromObject(&pod), &corev1.Secret{})))
}

// eventually waits for the Event with that reason.
func (f *fleet) eventually(reason string, about *v1alpha1.Proxy) {
	f.t.Helper()
	eventually(f.t, func(c *assert.CollectT) {
		var reasons []string
		for _, e := range f.events(f.t.Context(), about.UID) {
			reasons = append(reasons, e.Reason)
		}
		require.Contains(c, reasons, reason)
	})
}

// The manager watches all namespaces here: this test isn't parallel, so that no other fleet is there.
func TestTheRightsOfConfigDefaultAreEnoughAndNoMore(t *testing.T) {
	f := newFleet(t)
	d := cluster.standard
	f.command, f.watch = d.args(), nil
	require.Contains(t, f.command, "--leader-elect", "as deployed")
	m := f.start()
	f.story()
	stranger := serviceAccount(t, f.ns, "stranger")
	eventually(t, func(c *assert.CollectT) {
		status, body := get(t.Context(), "https://"+m.metrics+"/metrics", stranger)
		require.Equal(c, http.StatusForbidden, status, body)
	})
	requireNothingRefused(t, d.user())

	// What a right is for that one life of a Proxy doesn't show.
	unused := d.granted(t)
	require.NotEmpty(t, unused)
	delete(unused, grant{right{"events.k8s.io", "events", "patch"}, ""})             // counts an Event up that comes again while it is fresh
	delete(unused, grant{right{"", "events", "patch"}, d.namespace()})               // the same, of leader election
	delete(unused, grant{right{"", "secrets", "list"}, ""})                          // where the API server can't begin a watch with
	delete(unused, grant{right{v1alpha1.GroupVersion.Group, "proxies", "list"}, ""}) // what there is already
	for _, verb := range []string{"get", "create", "update", "delete"} {             // a sweep that stopped is confirmed in a ConfigMap
		delete(unused, grant{right{"", "configmaps", verb}, d.namespace()})
	}
	for _, verb := range []string{"create", "patch"} { // and told of by an Event on it
		delete(unused, grant{right{"events.k8s.io", "events", verb}, d.namespace()})
	}
	for _, r := range requestsOf(t, d.user()) {
		delete(unused, grant{r.right(), ""})
		delete(unused, grant{r.right(), r.Object.Namespace})
	}
	require.Empty(t, unused, "granted, and not needed")
}

// namespaced renders config/namespaced for a namespace, as its kustomization.yaml says how, under a name of its own: the
// ServiceAccount of config/default has its ClusterRole in this cluster already.
func namespaced(t *testing.T, watched string, change ...func([]byte) []byte) *deployment {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "config"))))
	overlay := filepath.Join(dir, "namespaced")
	require.NoError(t, os.Rename(filepath.Join(overlay, "watch-default"), filepath.Join(overlay, "watch-"+watched)))
	for name, replace := range map[string][2]string{
		"kustomization.yaml":                       {"- watch-default", "- watch-" + watched},
		"watch_patch.yaml":                         {"--watch-namespaces=default", "--watch-namespaces=" + watched},
		"watch-" + watched + "/kustomization.yaml": {"namespace: default", "namespace: " + watched},
	} {
		path := filepath.Join(overlay, name)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(raw), replace[0], name)
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(raw, []byte(replace[0]), []byte(replace[1])), 0o600))
	}
	change = append(change, func(m []byte) []byte {
		return bytes.ReplaceAll(m, []byte("proxy-operator-"), []byte(watched+"-operator-"))
	})
	d, err := render(t.Context(), overlay, change...)
	require.NoError(t, err)
	require.NoError(t, d.apply(t.Context()))
	return d
}

// deployedAs makes the fleet's managers those of a deployment.
func (f *fleet) deployedAs(d *deployment) {
	f.command, f.kubeconfig, f.home, f.watch = d.args(), d.kubeconfig, d.namespace(), nil
}

func TestRolesAreEnoughForChosenNamespaces(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	other := namespace(t, "not-watched-")
	d := namespaced(t, f.ns)
	for _, o := range d.objects {
		if o.GetKind() == "ClusterRoleBinding" {
			require.Contains(t, o.GetName(), "metrics-auth", "rights of the manager everywhere")
		}
	}
	f.deployedAs(d)
	f.start()
	ignored := f.createIn(other, "ignored")
	f.story()
	requireNothingRefused(t, d.user())
	for _, r := range requestsOf(t, d.user()) {
		if r.Object.Resource == "proxies" || r.Object.Resource == "secrets" {
			require.Equal(t, f.ns, r.Object.Namespace, "%s %s", r.Verb, r.RequestURI)
		}
	}
	f.watch = []string{other} // dissolve looks there as well
	p := f.awaitIn(other, "ignored", func(*assert.CollectT, *v1alpha1.Proxy) {})
	require.Equal(t, ignored.ResourceVersion, p.ResourceVersion)
}

func TestGetOnSecretsIsEnoughWithoutTheirWatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	d := namespaced(t, f.ns)
	for _, o := range d.objects {
		if o.GetKind() == "Role" && strings.HasSuffix(o.GetName(), "manager-role") {
			onlyGetOnSecrets(t, o)
			require.NoError(t, cluster.admin.Update(t.Context(), o))
		}
	}
	f.deployedAs(d)
	f.start("--secret-watch=false")
	l := login{"crawler", "unwatched-password-3Dy"}
	f.credentials("login", l)
	f.userData("boot", "#cloud-config\n# unwatched-user-data-1")
	f.create("unwatched", authFrom("login"), cloudInitFrom("boot"))
	old := f.ready("unwatched")
	requireTraffic(t, old, l)
	f.userData("boot", "#cloud-config\n# unwatched-user-data-2")
	f.edit("unwatched", annotate(v1alpha1.AnnotationReconcileRequestedAt, "now"))
	requireTraffic(t, f.replaced(old), l)
	requireNothingRefused(t, d.user())
	for _, r := range requestsOf(t, d.user()) {
		if r.Object.Resource == "secrets" {
			require.Equal(t, "get", r.Verb)
		}
	}
}

func onlyGetOnSecrets(t *testing.T, role *unstructured.Unstructured) {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	require.NoError(t, err)
	for _, r := range rules {
		if rule := r.(map[string]any); rule["resources"].([]any)[0] == "secrets" {
			rule["verbs"] = []any{"get"}
		}
	}
	require.NoError(t, unstructured.SetNestedSlice(role.Object, rules, "rules"))
}
