// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// settled returns when the fleet is exactly as wanted: those Proxies and no other, each Ready, each with one process,
// no process and no folder beside them.
func (f *fleet) settled(names ...string) map[string]*v1alpha1.Proxy {
	f.t.Helper()
	return f.settledWithin(patience, names...)
}

func (f *fleet) settledWithin(limit time.Duration, names ...string) map[string]*v1alpha1.Proxy {
	f.t.Helper()
	found := make(chan map[string]*v1alpha1.Proxy, 1)
	require.EventuallyWithT(f.t, func(c *assert.CollectT) {
		var list v1alpha1.ProxyList
		require.NoError(c, cluster.admin.List(f.t.Context(), &list, client.InNamespace(f.ns)))
		all := map[string]*v1alpha1.Proxy{}
		for i := range list.Items {
			all[list.Items[i].Name] = &list.Items[i]
		}
		require.ElementsMatch(c, names, slices.Collect(maps.Keys(all)), "the Proxies that there are")
		running, err := operator.RunningMachines(f.t.Context(), f.state)
		require.NoError(c, err)
		byOwner := map[string][]operator.Machine{}
		for _, i := range running {
			byOwner[i.Owner()] = append(byOwner[i.Owner()], i)
		}
		for _, p := range all {
			requireReady(c, p)
			own := byOwner[string(p.UID)]
			require.Len(c, own, 1, "processes of %s, which is to have %s", p.Name, p.Status.ProviderID)
			require.Equal(c, "local://"+own[0].Name, p.Status.ProviderID, p.Name)
			require.Equal(c, own[0].Name, p.Status.Instance.Name, p.Name)
		}
		require.Len(c, running, len(all), "all processes: %v", running)
		left, err := operator.MachineDirs(f.state)
		require.NoError(c, err)
		require.Len(c, left, len(all), "all folders: %v", left)
		found <- all
	}, limit, 250*time.Millisecond)
	return <-found
}

// processOf is the one process of a Proxy.
func (f *fleet) processOf(p *v1alpha1.Proxy) int {
	f.t.Helper()
	running, err := operator.RunningMachines(f.t.Context(), f.state)
	require.NoError(f.t, err)
	running = slices.DeleteFunc(running, func(i operator.Machine) bool { return i.Owner() != string(p.UID) })
	require.Len(f.t, running, 1, "processes of %s", p.Name)
	return running[0].PID
}

// secret makes a Secret, or changes it. What it holds must not be seen anywhere but in the instances' own files.
func (f *fleet) secret(name string, kind corev1.SecretType, data map[string]string) {
	f.t.Helper()
	for key, v := range data {
		if key != corev1.BasicAuthUsernameKey {
			f.sensitive = append(f.sensitive, v)
		}
	}
	s := &corev1.Secret{Type: kind, StringData: data}
	s.Namespace, s.Name = f.ns, name
	err := cluster.admin.Update(f.t.Context(), s)
	if client.IgnoreNotFound(err) == nil && err != nil {
		err = cluster.admin.Create(f.t.Context(), s)
	}
	require.NoError(f.t, err)
}

func (f *fleet) userData(name, text string) {
	f.t.Helper()
	f.secret(name, corev1.SecretTypeOpaque, map[string]string{"user-data": text})
}

func (f *fleet) credentials(name string, l login) {
	f.t.Helper()
	f.secret(name, corev1.SecretTypeBasicAuth, map[string]string{"username": l.username, "password": l.password})
}

func (f *fleet) deleteSecret(name string) {
	f.t.Helper()
	s := &corev1.Secret{}
	s.Namespace, s.Name = f.ns, name
	require.NoError(f.t, cluster.admin.Delete(f.t.Context(), s))
}

// withoutNewSecrets leaves out of an audit log what made the Secrets of pods, where secrets belong.
func withoutNewSecrets(t *testing.T, audit []byte) string {
	t.Helper()
	var kept strings.Builder
	for line := range bytes.Lines(audit) {
		var r request
		if bytes.HasSuffix(line, []byte("\n")) { // the last one may be half written
			require.NoError(t, json.Unmarshal(line, &r))
		}
		if r.Verb != "create" || r.Object.Resource != "secrets" {
			kept.Write(line)
		}
	}
	return kept.String()
}

// requireSecretsKept looks for the content of Secrets wherever others can read: logs, Proxies, Events, all that managers
// sent to the API server, and the instances' command lines.
func (f *fleet) requireSecretsKept(ctx context.Context) {
	if len(f.sensitive) == 0 {
		return
	}
	shown := map[string]string{}
	for _, m := range f.managers {
		shown[fmt.Sprintf("log of process %d", m.PID)] = m.Output()
	}
	var proxies v1alpha1.ProxyList
	var events eventsv1.EventList
	for name, list := range map[string]client.ObjectList{"Proxies": &proxies, "Events": &events} {
		require.NoError(f.t, cluster.admin.List(ctx, list, client.InNamespace(f.ns)))
		raw, err := json.Marshal(list)
		require.NoError(f.t, err)
		shown[name] = string(raw)
	}
	requests, err := os.ReadFile(cluster.auditLog)
	require.NoError(f.t, err)
	shown["requests of managers"] = withoutNewSecrets(f.t, requests)
	running, err := operator.Processes(ctx, f.state)
	require.NoError(f.t, err)
	for _, p := range running {
		shown["command line "+p.Args[0]] += strings.Join(p.Args, " ")
	}
	for _, s := range f.sensitive {
		for where, text := range shown {
			for line := range strings.Lines(s) { // JSON and quotes change the line breaks between them
				if line = strings.TrimSpace(line); line != "#cloud-config" {
					// Not by NotContains, which would print all of it.
					assert.False(f.t, strings.Contains(text, line), "%q is in %s", line, where)
				}
			}
			encoded := base64.StdEncoding.EncodeToString([]byte(s))
			assert.False(f.t, strings.Contains(text, encoded[:len(encoded)/4*4-4]), "%q is in %s, in base64", s, where)
		}
	}
}
