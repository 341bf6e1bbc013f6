// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/providers/kubernetes"
)

// TestTheAPIRefusesNoImageThatAPodTakes runs the rules of spec.image and those of accounts of type kubernetes over the same
// names. The API takes more: other providers spell images in their own ways, and the account says what it can't act on.
func TestTheAPIRefusesNoImageThatAPodTakes(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const yes, no = "", "refused"
	cases := map[string]struct {
		why, image, api string
		pod             string // what the account says to write
	}{
		"a name alone":                   {"it is docker.io's", "squid", yes, yes},
		"a name with a tag":              {"", "squid:6.12", yes, yes},
		"a registry and a port":          {"", "registry.example.com:5000/team/squid:6.12", yes, yes},
		"a digest":                       {"", "registry.example.com/squid" + digest, yes, yes},
		"a tag and a digest":             {"", "registry.example.com/squid:6.12" + digest, yes, yes},
		"a tag in upper case":            {"tags may be", "squid:V6_RC.1", yes, yes},
		"a registry in upper case":       {"hosts are", "Registry.example.com/squid", yes, yes},
		"two underscores":                {"the grammar has them", "team/squid__x", yes, yes},
		"a scheme":                       {"browsers show it so", "https://registry.example.com/squid:6", no, "without the scheme"},
		"another scheme":                 {"tools write it so", "docker://squid:6", no, "without the scheme"},
		"a space":                        {"", "squid 6", no, "without spaces"},
		"a space at the end":             {"it is easily pasted", "squid:6 ", no, "without spaces"},
		"a line break":                   {"the same", "squid:6\n", no, "without spaces"},
		"an empty tag":                   {"a variable was empty", "registry.example.com/squid:", no, "a tag after the colon"},
		"a slash at the end":             {"", "registry.example.com/squid/", no, "after the last slash"},
		"a slash at the start":           {"", "/squid", no, "the name of a container image"},
		"a repository in upper case":     {"a cloud's machine images may be", "registry.example.com/Team/squid:6", yes, "in lower case"},
		"two slashes":                    {"", "registry.example.com//squid", yes, "the name of a container image"},
		"two tags":                       {"as Azure has them", "canonical:ubuntu:22_04:latest", yes, "the name of a container image"},
		"a digest that is too short":     {"", "squid@sha256:0123", yes, "the name of a container image"},
		"a plus sign":                    {"versions have it, tags don't", "squid:6.12+1", yes, "the name of a container image"},
		"a path of a cloud's image":      {"it reads as one of docker.io", "projects/debian-cloud/global/images/family/debian-13", yes, yes},
		"a name of another alphabet":     {"", "прокси:1", no, "the name of a container image"},
		"nothing":                        {"", "", no, "the name of a container image"},
		"a repository that is too long":  {"", strings.Repeat("a", 253) + "/x", no, yes},
		"a tag that is too long":         {"", "squid:" + strings.Repeat("a", 129), yes, "the name of a container image"},
		"a tag that ends in a dot":       {"nobody writes it on purpose, so the API may refuse it", "squid:6.", no, yes},
		"a registry at an IPv6 address":  {"nobody has asked for it yet", "[fd00::1]:5000/squid", no, yes},
		"an image of a name that is hex": {"it would be taken for an id", strings.Repeat("ab", 32), yes, "the name of a container image"},
	}
	ns := namespace(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			image, err := json.Marshal(c.image)
			require.NoError(t, err)
			err = create(t.Context(), ns, proxyWithImage(string(image)))
			if c.api == yes {
				require.NoError(t, err, c.why)
			} else {
				require.ErrorContains(t, err, "spec.image", c.why)
			}
			got := kubernetes.ImageProblem(c.image)
			if c.pod == yes {
				require.Empty(t, got, c.why)
			} else {
				require.Contains(t, got, c.pod, c.why)
				require.Regexp(t, "^write ", got)
			}
		})
	}
}

func proxyWithImage(image string) string {
	return "apiVersion: crawl.proxy-operator.io/v1alpha1\nkind: Proxy\nmetadata: {generateName: image-}\nspec: {provider: pods, image: " + image + "}\n"
}

// TestAnImageFromBeforeItsRuleStaysWritable: the API server holds against an object only what a write changes, so a Proxy with a
// name that was taken before an upgrade can still be labelled, let go, and told about.
func TestAnImageFromBeforeItsRuleStaysWritable(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "crawl.proxy-operator.io_proxies.yaml"))
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(raw, crd))
	const group = "before.example.com" // the other tests go on with the real one
	crd.Name, crd.Spec.Group, crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = "proxies."+group, group, nil, nil
	spec := func() map[string]apiextensionsv1.JSONSchemaProps {
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	}
	rules := spec()["image"].XValidations
	require.NotEmpty(t, rules)
	setRules := func(to apiextensionsv1.ValidationRules) {
		image := spec()["image"]
		image.XValidations = to
		spec()["image"] = image
	}

	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(api.config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	setRules(nil)
	require.NoError(t, c.Create(t.Context(), crd))
	t.Cleanup(func() { _ = c.Delete(t.Context(), crd) })
	odd := func(name, image string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1alpha1", "kind": "Proxy", "metadata": map[string]any{"namespace": "default", "name": name},
			"spec": map[string]any{"provider": "pods", "image": image},
		}}
	}
	old := odd("old", "https://registry.example.com/squid:6")
	require.Eventually(t, func() bool { return c.Create(t.Context(), old) == nil }, 30*time.Second, 50*time.Millisecond)
	before := crd.DeepCopy()
	setRules(rules)
	require.NoError(t, c.Patch(t.Context(), crd, client.MergeFrom(before)))
	require.Eventually(t, func() bool {
		err := c.Create(t.Context(), odd("new", "https://registry.example.com/squid:6"), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "without a scheme")
	}, 30*time.Second, 50*time.Millisecond, "the rule is there")

	old.SetLabels(map[string]string{"a": "b"})
	old.SetFinalizers([]string{"crawl.proxy-operator.io/instance"})
	require.NoError(t, c.Update(t.Context(), old), "metadata")
	require.NoError(t, unstructured.SetNestedField(old.Object, int64(3129), "spec", "port"))
	require.NoError(t, c.Update(t.Context(), old), "another field of spec")
	require.NoError(t, unstructured.SetNestedField(old.Object, "Failed", "status", "phase"))
	require.NoError(t, c.Status().Update(t.Context(), old), "status")
	require.NoError(t, unstructured.SetNestedField(old.Object, "https://registry.example.com/squid:7", "spec", "image"))
	require.ErrorContains(t, c.Update(t.Context(), old), "without a scheme", "the image itself")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(old), old))
	old.SetFinalizers(nil)
	require.NoError(t, c.Update(t.Context(), old))
	require.NoError(t, c.Delete(t.Context(), old))
}
