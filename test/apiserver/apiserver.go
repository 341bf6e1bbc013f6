// SPDX-License-Identifier: Apache-2.0

// Package apiserver gives a package's tests one real API server, with the project's CRDs.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is for a machine with much to do: by itself the API server starts and stops in a few seconds.
const patience = 90 * time.Second

var errNoAssets = errors.New("KUBEBUILDER_ASSETS is not set: run make test, or export KUBEBUILDER_ASSETS=$(go run ./hack/cluster assets)")

// Use gets an administrator's configuration. ctx ends when the tests have: the API server waits a minute for a watch to end.
type Use func(ctx context.Context, config *rest.Config) error

// Run starts etcd and kube-apiserver, calls use, runs the package's tests, stops the two, and returns the exit code for TestMain.
// root is the way from the package's folder to that of go.mod. change is called before the start.
func Run(m *testing.M, root string, use Use, change ...func(*envtest.Environment)) int {
	code, err := run(m, root, use, change)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(m *testing.M, root string, use Use, change []func(*envtest.Environment)) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 0, errNoAssets
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(root, "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
	}
	for _, c := range change {
		c(env)
	}
	defer func() {
		if stop := env.Stop(); stop != nil {
			err = errors.Join(err, fmt.Errorf("stop the API server: %w", stop))
		}
	}()
	config, err := env.Start()
	if err != nil {
		return 0, fmt.Errorf("start the API server and install the CRDs: %w", err)
	}
	config.QPS = -1 // the API server's own fairness is enough
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := use(ctx, config); err != nil {
		return 0, fmt.Errorf("prepare the tests: %w", err)
	}
	return m.Run(), nil
}
