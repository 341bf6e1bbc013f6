// SPDX-License-Identifier: Apache-2.0

// Package apiserver gives a package's tests one real API server, with the project's CRDs.
package apiserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var errNoAssets = errors.New("KUBEBUILDER_ASSETS is not set: run make test, or export KUBEBUILDER_ASSETS=$(go run ./hack/cluster assets)")

// Run starts etcd and kube-apiserver, hands their configuration to use, runs the package's tests, stops the two, and returns
// the exit code for TestMain. root is the way from the package's folder to that of go.mod.
func Run(m *testing.M, root string, use func(*rest.Config) error) int {
	code, err := run(m, root, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(m *testing.M, root string, use func(*rest.Config) error) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 0, errNoAssets
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(root, "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
	}
	defer func() {
		if stop := env.Stop(); stop != nil {
			err = errors.Join(err, fmt.Errorf("stop the API server: %w", stop))
		}
	}()
	config, err := env.Start()
	if err != nil {
		return 0, fmt.Errorf("start the API server and install config/crd/bases: %w", err)
	}
	config.QPS = -1 // the API server's own fairness is enough
	if err := use(config); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
