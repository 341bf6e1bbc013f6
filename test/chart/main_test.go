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
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
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

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run make test, or export KUBEBUILDER_ASSETS=$(go run ./hack/cluster assets)")
		return 1
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("testdata", "monitoring.yaml")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
	}
	if err := prepare(env); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests:", err)
		code = 1
	} else {
		code = m.Run()
	}
	if err := errors.Join(env.Stop(), os.RemoveAll(cluster.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "tidy up after the tests:", err)
		code = 1
	}
	return code
}

func prepare(env *envtest.Environment) (err error) {
	if cluster.dir, err = os.MkdirTemp("", "chart-test-"); err != nil {
		return err
	}
	cluster.binary = filepath.Join(cluster.dir, "proxy-operator")
	if out, err := exec.Command("go", "build", "-o", cluster.binary, root+"/cmd").CombinedOutput(); err != nil {
		return fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	if cluster.config, err = env.Start(); err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	cluster.config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	if cluster.admin, err = client.New(cluster.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, cluster.config)
	if err != nil {
		return err
	}
	raw, err := user.KubeConfig()
	if err != nil {
		return err
	}
	cluster.kubeconfig = filepath.Join(cluster.dir, "kubeconfig")
	return os.WriteFile(cluster.kubeconfig, raw, 0o600)
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
