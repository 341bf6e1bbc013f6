// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/cluster/controlplane"
)

const (
	account = "local"

	managerLimit = time.Minute      // to be ready; it takes one or two seconds
	managerGrace = 25 * time.Second // its own is 20
	endLimit     = 15 * time.Second // for the instances, which are killed
)

// world is what is measured: a control plane and the manager, as a user runs them.
type world struct {
	options
	root   string // of the checkout
	dir    string // temporary; all that runs writes there
	assets string // folder of etcd and kube-apiserver

	plane   *controlplane.ControlPlane
	kube    client.WithWatch
	http    *http.Client // the API server's, with the admin's certificate
	manager *child

	managerMetrics string // address
}

// newWorld finds and builds what is needed; nothing runs yet.
func newWorld(ctx context.Context, o options) (*world, error) {
	log.SetLogger(logr.Discard())
	w := &world{options: o}
	var err error
	if w.root, err = checkout(); err != nil {
		return nil, err
	}
	if err := w.build(ctx); err != nil {
		return nil, err
	}
	if w.assets, err = controlplane.Assets(ctx, os.Stderr); err != nil {
		return nil, fmt.Errorf("provide the control plane's binaries: %w", err)
	}
	if w.dir, err = os.MkdirTemp("", "proxy-operator-bench-"); err != nil {
		return nil, fmt.Errorf("make temporary folder (TMPDIR names another place): %w", err)
	}
	return w, nil
}

// checkout finds the root of this repository above the working folder.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/proxy-operator/proxy-operator\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this is no checkout of proxy-operator: change into one")
		}
		dir = filepath.Dir(dir)
	}
}

func (w *world) build(ctx context.Context) (err error) {
	if w.binary != "" {
		w.binary, err = filepath.Abs(w.binary)
		return err
	}
	progress("building bin/proxy-operator")
	w.binary = filepath.Join(w.root, "bin", "proxy-operator")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", w.binary, "./cmd")
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.root, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the operator: %w", err)
	}
	return nil
}

func (w *world) stateDir() string { return filepath.Join(w.dir, "instances") }

// start starts everything. fail is called when something ends that should run.
func (w *world) start(ctx context.Context, fail context.CancelCauseFunc) (err error) {
	progress("starting the control plane and the manager")
	w.plane, err = controlplane.Start(ctx, controlplane.Options{
		Assets: w.assets, DataDir: filepath.Join(w.dir, "control-plane"), UnsafeNoFsync: true, // its data goes with the bench
	})
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	go func() {
		<-w.plane.Done()
		fail(w.plane.Err())
	}()
	config, err := clientcmd.BuildConfigFromFlags("", w.plane.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // the bench doesn't slow itself down
	if err := w.connect(config); err != nil {
		return fmt.Errorf("connect to the control plane: %w", err)
	}
	crds := envtest.CRDInstallOptions{Paths: []string{filepath.Join(w.root, "config", "crd", "bases")}, ErrorIfPathMissing: true}
	if _, err := envtest.InstallCRDs(config, crds); err != nil {
		return fmt.Errorf("install the CRD: %w", err)
	}
	if err := w.kube.Create(ctx, secret()); err != nil {
		return fmt.Errorf("create the cloud-init Secret: %w", err)
	}
	return w.startManager(ctx, fail)
}

func (w *world) connect(config *rest.Config) (err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if w.kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	w.http, err = rest.HTTPClientFor(config)
	return err
}

// startManager returns once the manager sees the cluster.
func (w *world) startManager(ctx context.Context, fail context.CancelCauseFunc) error {
	probes, err := freeAddress()
	if err != nil {
		return err
	}
	if w.managerMetrics, err = freeAddress(); err != nil {
		return err
	}
	config := filepath.Join(w.dir, "operator.yaml")
	text := fmt.Sprintf("accounts:\n- name: %s\n  type: local\n  local:\n    stateDir: %q\n", account, w.stateDir())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the manager's configuration: %w", err)
	}
	w.manager, err = startChild(filepath.Join(w.dir, "manager.log"), w.binary, "manager",
		"--config="+config, "--kubeconfig="+w.plane.Kubeconfig, "--health-probe-bind-address="+probes,
		"--metrics-bind-address="+w.managerMetrics, "--metrics-secure=false")
	if err != nil {
		return err
	}
	go func(c *child) {
		<-c.done
		fail(errors.Join(errors.New("the manager ended by itself"), c.err))
	}(w.manager)
	return awaitOK(ctx, "http://"+probes+"/readyz")
}

// freeAddress returns a port of 127.0.0.1 that nobody listens on just now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // a listen on loopback never waits
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func awaitOK(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, managerLimit, fmt.Errorf("not ready after %s", managerLimit))
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil); err != nil {
			return err
		} else if resp, err := http.DefaultClient.Do(req); err == nil {
			if err := resp.Body.Close(); err != nil || resp.StatusCode == http.StatusOK {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the manager: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// end takes away all that was started, in whatever state it is. The manager goes before its instances, or it would make
// them again.
func (w *world) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, managerGrace+endLimit)
	defer cancel()
	var errs []error
	if w.manager != nil {
		errs = append(errs, w.manager.end(managerGrace))
	}
	errs = append(errs, killInstances(ctx, w.stateDir()))
	if w.plane != nil {
		errs = append(errs, w.plane.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}

// tellOfManager shows what the manager had to say, as it is the first suspect when something goes wrong.
func (w *world) tellOfManager() {
	if w.manager != nil {
		progress("the manager's last lines:\n%s", w.manager.lastLines(15))
	}
}
