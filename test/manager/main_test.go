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
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
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
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run make test, or export KUBEBUILDER_ASSETS=$(go run ./hack/cluster assets)")
		return 1
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(root, "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
	}
	if err := prepare(env); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests:", err)
		code = 1
	} else {
		code = m.Run()
	}
	if err := tidy(env); err != nil {
		fmt.Fprintln(os.Stderr, "tidy up after the tests:", err)
		code = 1
	}
	return code
}

func prepare(env *envtest.Environment) (err error) {
	if cluster.dir, err = os.MkdirTemp("", "manager-test-"); err != nil {
		return err
	}
	cluster.binary = filepath.Join(cluster.dir, "proxy-operator")
	args := append([]string{"build", "-o", cluster.binary}, buildFlags()...)
	if out, err := exec.Command("go", append(args, root+"/cmd")...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	if err := auditTo(env); err != nil {
		return err
	}
	if cluster.config, err = env.Start(); err != nil {
		return fmt.Errorf("start the API server and install config/crd/bases: %w", err)
	}
	cluster.config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if cluster.admin, err = client.New(cluster.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	cluster.origin = startOrigin()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if cluster.standard, err = render(ctx, filepath.Join(root, "config", "default")); err != nil {
		return err
	}
	return cluster.standard.apply(ctx)
}

// tidy ends everything. A process that a test has left is an error, and is killed.
func tidy(env *envtest.Environment) error {
	errs := []error{killProcesses(cluster.dir)}
	if cluster.origin != nil {
		cluster.origin.close()
	}
	return errors.Join(append(errs, env.Stop(), os.RemoveAll(cluster.dir))...)
}

// buildFlags has the race detector in the binary when the tests have it.
func buildFlags() []string {
	if raceDetector {
		return []string{"-race"}
	}
	return nil
}

// tail returns the end of a text, to show with a failure.
func tail(text []byte, lines int) string {
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
