// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/kubernetes"
	"github.com/proxy-operator/proxy-operator/providers/local"
)

const specPage = "docs/spec/proxy.md"

func TestSpecListsEveryField(t *testing.T) {
	require.ElementsMatch(t, paths("spec", reflect.TypeFor[v1alpha1.ProxySpec]()), firstFieldColumn(t, "## Spec", "spec."))
	require.ElementsMatch(t, paths("status", reflect.TypeFor[v1alpha1.ProxyStatus]()), firstFieldColumn(t, "## Status", "status."))
}

// firstFieldColumn is firstColumn of the tables of fields.
func firstFieldColumn(t *testing.T, heading, prefix string) []string {
	t.Helper()
	var out []string
	for _, r := range rows(section(t, specPage, heading)) {
		if names := code(r[0]); len(names) == 1 && strings.HasPrefix(names[0], prefix) {
			out = append(out, names[0])
		}
	}
	return out
}

// paths lists the JSON paths below a struct of ours. Lists, maps and durations are one field.
func paths(prefix string, typ reflect.Type) []string {
	var out []string
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := prefix + "." + name
		out = append(out, path)
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		asInAPod := inner == reflect.TypeFor[v1alpha1.Affinity]() // which Kubernetes' own pages explain
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[metav1.Duration]() && !asInAPod {
			out = append(out, paths(path, inner)...)
		}
	}
	return out
}

func TestAnnotationsAreExplained(t *testing.T) {
	all := withPrefix(t, apiDir, "Annotation")
	require.ElementsMatch(t, all, firstColumn(t, specPage, "## Annotations"))
	var own []string
	for _, a := range all {
		if a != v1alpha1.AnnotationIntent {
			own = append(own, a)
		}
	}
	require.ElementsMatch(t, own, firstColumn(t, "README.md", "## Annotations"), "the README lists those that users set")
}

func TestExamplesDecode(t *testing.T) {
	samples, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	require.NoError(t, err)
	proxies := map[string]int{}
	for _, page := range append(pages(t), samples...) {
		text := read(t, page)
		documents := []string{text}
		if filepath.Ext(page) == ".md" {
			documents = examples(text)
		}
		for _, d := range documents {
			for one := range strings.SplitSeq("\n"+d, "\n---") {
				if decode(t, page, one) {
					proxies[page]++
				}
			}
		}
	}
	require.GreaterOrEqual(t, proxies[filepath.Join(root, "README.md")], 2, "the example, and the one that is applied")
	require.GreaterOrEqual(t, proxies[filepath.Join(root, specPage)], 5)
}

// examples returns the YAML of a page: its yaml blocks, and what its shell blocks feed to a command.
func examples(text string) []string {
	var out []string
	for i, block := range strings.Split(text, "```") {
		if i%2 == 0 {
			continue // between blocks
		}
		language, content, _ := strings.Cut(block, "\n")
		switch language {
		case "yaml":
			out = append(out, content)
		case "sh":
			if _, fed, ok := strings.Cut(content, "<<'END'\n"); ok {
				manifest, _, _ := strings.Cut(fed, "\nEND\n")
				out = append(out, manifest)
			}
		}
	}
	return out
}

// decode decodes a document strictly as what it says it is, and reports whether that is a Proxy.
func decode(t *testing.T, page, document string) bool {
	t.Helper()
	if strings.Contains(document, "\naccounts:") {
		_, err := providers.ParseConfig([]byte(document), map[string]providers.Factory{
			"kubernetes": kubernetes.Factory(kubernetes.Options{Image: "ghcr.io/proxy-operator/proxy-operator:latest"}),
			"local":      local.Factory(local.Options{Binary: "/proxy-operator", StateDir: "/state", Clock: clock.RealClock{}, Log: logr.Discard()}),
		})
		require.NoError(t, err, "%s:\n%s", page, document)
		return false
	}
	var kind metav1.TypeMeta
	require.NoError(t, yaml.Unmarshal([]byte(document), &kind), "%s:\n%s", page, document)
	if kind.Kind == "" || kind.Kind == "Kustomization" {
		return false
	}
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := strict.Decode([]byte(document), nil, nil)
	require.NoError(t, err, "%s:\n%s", page, document)
	_, ok := object.(*v1alpha1.Proxy)
	return ok
}
