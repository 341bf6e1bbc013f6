// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const folder = "../../config/samples"

// readSampleFiles joins the files that the kustomization lists, as kustomize does.
func readSampleFiles(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	require.NoError(t, err)
	var k struct {
		Resources []string `json:"resources"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &k))
	files, err := filepath.Glob(filepath.Join(folder, "crawl_*.yaml"))
	require.NoError(t, err)
	listed := append(k.Resources[:len(k.Resources):len(k.Resources)], "crawl_v1alpha1_proxy_kubernetes.yaml") // which takes a cluster that runs pods
	require.Len(t, listed, len(files), "the kustomization lists every sample that fits the local accounts")
	var docs []string
	for _, name := range k.Resources {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		docs = append(docs, string(text))
	}
	return strings.Join(docs, "\n---\n")
}

func TestTheSamplesHaveWhatTheScenesNeed(t *testing.T) {
	proxies, err := decodeProxies(readSampleFiles(t))
	require.NoError(t, err)
	managed := 0
	for _, p := range proxies {
		if p.Spec.Mode != v1alpha1.ModeExternal {
			require.Equal(t, "local", p.Spec.Provider, p.Name)
			managed++
		}
	}
	require.GreaterOrEqual(t, managed, 3)
	_, at, err := external(proxies)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:13128", at.String())
	_, err = plain(proxies)
	require.NoError(t, err)
	withData, withAuth, err := secretUsers(proxies)
	require.NoError(t, err)
	require.NotEqual(t, withData.Name, withAuth.Name)
}

func TestAnotherPortIsPutIntoOneProxyAlone(t *testing.T) {
	manifests := readSampleFiles(t)
	before, err := decodeProxies(manifests)
	require.NoError(t, err)
	text, err := withPort(manifests, "sample-external", 40000)
	require.NoError(t, err)
	after, err := decodeProxies(text)
	require.NoError(t, err)
	require.Len(t, after, len(before))
	for i := range before {
		if before[i].Name == "sample-external" {
			before[i].Spec.Endpoint.Port = 40000
		}
	}
	require.Equal(t, before, after)
	require.Equal(t, strings.Count(manifests, "kind: Secret"), strings.Count(text, "kind: Secret"))

	_, err = withPort(manifests, "sample-managed-1", 40000)
	require.ErrorContains(t, err, "no Proxy sample-managed-1 with an endpoint")
}

func TestSamplesThatTheDemoCannotPlayAreRefused(t *testing.T) {
	endpoint := func(host string) []v1alpha1.Proxy {
		p := v1alpha1.Proxy{Spec: v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: host, Port: 1}}}
		return []v1alpha1.Proxy{p}
	}
	for _, host := range []string{"proxy.example.com", "192.0.2.1"} {
		_, _, err := external(endpoint(host))
		require.ErrorContains(t, err, "must be a loopback address", "the demo can't start a proxy there")
	}
	_, _, err := external(nil)
	require.ErrorContains(t, err, "no Proxy of mode External")
	_, err = decodeProxies("kind: Secret")
	require.ErrorContains(t, err, "no Proxies")
	_, err = plain(endpoint("127.0.0.1"))
	require.Error(t, err)
	_, _, err = secretUsers(endpoint("127.0.0.1"))
	require.Error(t, err)
}

func TestATakenPortIsNoticed(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	at := netip.MustParseAddrPort(l.Addr().String())
	require.True(t, taken(at))
	require.NoError(t, l.Close())
	require.False(t, taken(at))
}

func TestTheReadyFileTellsTheEndpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ready.json")
	_, err := readReady(path)
	require.Error(t, err)
	require.NoError(t, os.WriteFile(path, []byte(`{"address":"127.0.0.1","port":13128,"pid":1}`), 0o600))
	at, err := readReady(path)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:13128", at.String())
}
