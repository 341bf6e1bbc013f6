// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	chartDir = root + "/charts/proxy-operator"
	// The names of the release that tests render.
	releaseName = "px"
	releaseNS   = "operators"
)

// values are what a user writes.
type values = map[string]any

// parse reads values as a user's file has them.
func parse(t *testing.T, text string) values {
	t.Helper()
	v := values{}
	require.NoError(t, sigsyaml.Unmarshal([]byte(text), &v))
	return v
}

// valuesFiles are those of the chart's ci folder, by name.
func valuesFiles(t *testing.T) map[string]values {
	t.Helper()
	files, err := filepath.Glob(chartDir + "/ci/*.yaml")
	require.NoError(t, err)
	all := map[string]values{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		all[strings.TrimSuffix(filepath.Base(f), ".yaml")] = parse(t, string(raw))
	}
	require.Len(t, all, 5)
	return all
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	require.NoError(t, err)
	return c
}

// template is `helm template`, with the APIs that the cluster is said to have.
func template(t *testing.T, c *chart.Chart, v values, apis ...string) (*release.Release, error) {
	t.Helper()
	a := action.NewInstall(&action.Configuration{})
	a.ClientOnly, a.DryRun, a.ReleaseName, a.Namespace = true, true, releaseName, releaseNS
	a.KubeVersion, a.APIVersions = &chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}, apis
	return a.RunWithContext(t.Context(), c, v)
}

// manifests are the objects of a release, those of hooks too.
func manifests(t *testing.T, r *release.Release) []*unstructured.Unstructured {
	t.Helper()
	texts := []string{r.Manifest}
	for _, h := range r.Hooks {
		texts = append(texts, h.Manifest)
	}
	return objects(t, texts...)
}

func objects(t *testing.T, texts ...string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, text := range texts {
		docs := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
		for {
			o := &unstructured.Unstructured{}
			err := docs.Decode(o)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, text)
			if len(o.Object) > 0 {
				all = append(all, o)
			}
		}
	}
	return all
}

// render returns the objects that the values make.
func render(t *testing.T, v values, apis ...string) []*unstructured.Unstructured {
	t.Helper()
	r, err := template(t, loadChart(t), v, apis...)
	require.NoError(t, err)
	return manifests(t, r)
}

// id tells objects apart in a message.
func id(o *unstructured.Unstructured) string {
	return strings.TrimLeft(o.GetNamespace()+"/", "/") + o.GetKind() + "/" + o.GetName()
}

// ofKind returns the objects of the kinds.
func ofKind(all []*unstructured.Unstructured, kinds ...string) []*unstructured.Unstructured {
	var some []*unstructured.Unstructured
	for _, o := range all {
		if slices.Contains(kinds, o.GetKind()) {
			some = append(some, o)
		}
	}
	return some
}

// one returns the one object of the kind and name.
func one[T any](t *testing.T, all []*unstructured.Unstructured, kind, name string) T {
	t.Helper()
	var into T
	found := 0
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &into))
			found++
		}
	}
	require.Equal(t, 1, found, "%s %s", kind, name)
	return into
}
