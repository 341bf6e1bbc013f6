// SPDX-License-Identifier: Apache-2.0

// Package manager_test drives the operator's real binary from outside: against a real API server, as the ServiceAccount
// that config/default makes and with no other rights, with the provider local, whose instances are processes.
//
// What holds a test's world: main_test.go (API server, binary), deploy_test.go (the rendered manifests, users),
// fleet_test.go (Proxies and Secrets of one test), process_test.go (the manager), instances_test.go (what it made),
// traffic_test.go (requests through it), audit_test.go (what it asked the API server). Every manager of every test is
// looked at when it ends: its exit code, and each line of its log.
package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

// patience bounds every wait for something that takes a few seconds on a machine with nothing else to do.
const patience = 90 * time.Second

// root is the repository.
const root = "../.."

// cluster is what all tests share; TestMain makes it.
var cluster struct {
	dir      string // scratch; the path of every process that a test starts begins with it
	binary   string
	config   *rest.Config  // of an administrator
	admin    client.Client // the user, and whoever else changes objects
	auditLog string
	standard *deployment // config/default, as rendered
	origin   *origin
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "manager-test-")
	if err == nil {
		cluster.dir, cluster.binary, cluster.auditLog = dir, filepath.Join(dir, "proxy-operator"), filepath.Join(dir, "audit.log")
		code = apiserver.Run(m, root, prepare, audited)
		err = tidy()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func prepare(ctx context.Context, config *rest.Config) (err error) {
	cluster.config = config
	if err := operator.Build(ctx, root, cluster.binary, buildFlags()...); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if cluster.admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	cluster.origin = startOrigin()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if cluster.standard, err = render(ctx, filepath.Join(root, "config", "default")); err != nil {
		return err
	}
	return cluster.standard.apply(ctx)
}

// tidy ends everything. A process that a test has left is an error, and is killed.
func tidy() error {
	if cluster.origin != nil {
		cluster.origin.close()
	}
	return errors.Join(killProcesses(cluster.dir), os.RemoveAll(cluster.dir))
}

// buildFlags has the race detector in the binary when the tests have it.
func buildFlags() []string {
	if raceDetector {
		return []string{"-race"}
	}
	return nil
}
