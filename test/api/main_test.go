// SPDX-License-Identifier: Apache-2.0

// Package api_test proves the API of proxy-operator against a real API server: what it takes, what it refuses and with
// which words, what it keeps, and what kubectl prints.
//
// manifests/good and manifests/bad hold one Proxy a file. Comments at the top of a file say why it is there and, in
// manifests/bad, which texts the refusal must have.
package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

// api is the API server that all tests of this package share; TestMain starts it.
var api struct {
	config *rest.Config
	typed  client.Client    // speaks the Go types; every write is strict
	raw    *rest.RESTClient // sends and gets bytes, as kubectl does
}

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, filepath.Join("..", ".."), connect))
}

func connect(_ context.Context, config *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	plain, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	forRaw := rest.CopyConfig(config)
	forRaw.APIPath = "/apis"
	forRaw.GroupVersion = &v1alpha1.GroupVersion
	forRaw.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	raw, err := rest.RESTClientFor(forRaw)
	if err != nil {
		return err
	}
	api.config, api.typed, api.raw = config, client.WithFieldValidation(plain, metav1.FieldValidationStrict), raw
	return nil
}

// namespace makes a namespace for one test.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, api.typed.Create(t.Context(), ns))
	return ns.Name
}

// create posts a manifest as it is, with strict field validation.
func create(ctx context.Context, ns, manifest string) error {
	return api.raw.Post().Namespace(ns).Resource("proxies").Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/yaml").Body([]byte(manifest)).Do(ctx).Error()
}

// replace puts an object as it is, with strict field validation.
func replace(ctx context.Context, ns string, obj map[string]any, subresource ...string) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	name := obj["metadata"].(map[string]any)["name"].(string)
	return api.raw.Put().Namespace(ns).Resource("proxies").Name(name).SubResource(subresource...).
		Param("fieldValidation", "Strict").Body(body).Do(ctx).Error()
}

// read gets an object as the API server has it.
func read(t *testing.T, ns, name string) map[string]any {
	t.Helper()
	body, err := api.raw.Get().Namespace(ns).Resource("proxies").Name(name).Do(t.Context()).Raw()
	require.NoError(t, err)
	obj := map[string]any{}
	require.NoError(t, json.Unmarshal(body, &obj))
	return obj
}

// parse reads YAML, as of a part of an object.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &out))
	return out
}

// manifestOf is a manifest with this spec, in YAML flow style or JSON.
func manifestOf(name, spec string) string {
	return fmt.Sprintf("apiVersion: crawl.proxy-operator.io/v1alpha1\nkind: Proxy\nmetadata: {name: %s}\nspec: %s\n", name, spec)
}
