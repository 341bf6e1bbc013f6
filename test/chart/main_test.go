// SPDX-License-Identifier: Apache-2.0

// Package chart_test installs, changes and removes the Helm chart with Helm's own code: rendered alone, and on a real API
// server. No kubelet and no controllers run there, so no pod does: jobs_test.go runs what a Job's pod would run, and
// operator_test.go the manager as the chart's Deployment says, with the provider local.
//
// Reading order: main_test.go (API server, binary), render_test.go and release_test.go (Helm), jobs_test.go, operator_test.go; then
// the tests: lint, values, rendered, lifecycle, uninstall.
package chart_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

const (
	root = "../.."
	// patience bounds every wait for something that takes a few seconds on a machine with nothing else to do.
	patience = 90 * time.Second
)

// cluster is what all tests share; TestMain makes it.
var cluster struct {
	dir        string // scratch
	binary     string
	config     *rest.Config
	admin      client.Client
	kubeconfig string // of an administrator
}

func TestMain(m *testing.M) {
	code := apiserver.Run(m, root, prepare, func(env *envtest.Environment) {
		env.CRDDirectoryPaths = []string{filepath.Join("testdata", "monitoring.yaml")} // the chart brings ours
	})
	if err := os.RemoveAll(cluster.dir); err != nil {
		fmt.Fprintln(os.Stderr, "tidy up after the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare(ctx context.Context, config *rest.Config) (err error) {
	cluster.config = config
	if cluster.dir, err = os.MkdirTemp("", "chart-test-"); err != nil {
		return err
	}
	cluster.binary = filepath.Join(cluster.dir, "proxy-operator")
	if err := operator.Build(ctx, root, cluster.binary); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	if cluster.admin, err = client.New(cluster.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	cluster.kubeconfig, err = apiserver.WriteKubeconfig(cluster.dir, config, "")
	return err
}

// eventually waits until cond passes.
func eventually(t *testing.T, cond func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, cond, patience, 100*time.Millisecond)
}

// cleanup is a context for what must be done when a test has ended.
func cleanup(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}
