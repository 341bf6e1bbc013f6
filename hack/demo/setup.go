// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/cluster/controlplane"
	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

const module = "module github.com/proxy-operator/proxy-operator"

// prepare finds and builds what the scenes need, before anything runs.
func (d *demo) prepare(ctx context.Context) (err error) {
	d.screen.print("%s", d.screen.bold("proxy-operator demo"))
	if _, err := os.UserCacheDir(); err != nil {
		return errors.New("neither HOME nor XDG_CACHE_HOME is set: set one, for the folder where the control plane's binaries are kept")
	}
	if d.root, err = checkout(); err != nil {
		return err
	}
	sweepDead(d.screen)
	if d.dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return fmt.Errorf("make temporary folder (TMPDIR names another place): %w", err)
	}
	d.onAbandon(func() { _ = os.RemoveAll(d.dir) })
	d.onAbandon(func() { killInstances(d.stateDir()) })
	if d.lock, err = processlock.Acquire(filepath.Join(d.dir, dirLock)); err != nil {
		return err
	}
	d.screen.scene("Start", "The operator's binary, a control plane (etcd and kube-apiserver), the CRD and the operator, all on loopback.", "")
	if err := d.build(ctx); err != nil {
		return err
	}
	d.assets, err = controlplane.Assets(ctx, d.screen.out)
	if err != nil {
		return fmt.Errorf("provide the control plane's binaries: %w", err)
	}
	return nil
}

// checkout finds the root of this repository above the working folder.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod")) // #nosec G304 -- above the working folder
		if err == nil && strings.HasPrefix(string(text), module+"\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this is no checkout of proxy-operator: change into one; the demo uses its samples and its CRD")
		}
		dir = filepath.Dir(dir)
	}
}

// build makes the operator's binary, unless one is given.
func (d *demo) build(ctx context.Context) error {
	if d.binary != "" {
		path, err := exec.LookPath(d.binary)
		if err == nil {
			d.binary, err = filepath.Abs(path)
		}
		if err != nil {
			return fmt.Errorf("find the operator's binary: %w", err)
		}
		d.screen.ok("the operator is %s", d.binary)
		return nil
	}
	started := time.Now()
	d.binary = filepath.Join(d.root, "bin", "proxy-operator")
	d.screen.progress("building the operator")
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "build", "-o", d.binary, "./cmd")
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.root, &output, &output
	// In a group of its own the go command is ended together with its compilers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	switch err := cmd.Run(); {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("build the operator: there is no go in PATH; install Go, or name a binary with -binary")
	case ctx.Err() != nil:
		return fmt.Errorf("build the operator: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("build the operator: %w\n%s", err, tail(output.String(), 20))
	}
	d.screen.ok("built bin/proxy-operator %s", took(started))
	return nil
}

// setUp starts all that the proxies need.
func (d *demo) setUp(ctx context.Context) error {
	if err := d.startPlane(ctx); err != nil {
		return err
	}
	if _, err := d.kube.run(ctx, "", "apply", "-f", filepath.Join(d.root, "config", "crd", "bases")); err != nil {
		return fmt.Errorf("install the CRD: %w", err)
	}
	if _, err := d.kube.run(ctx, "", "wait", "--for=condition=Established", "--timeout=30s", "crd", "proxies.crawl.proxy-operator.io"); err != nil {
		return fmt.Errorf("install the CRD: %w", err)
	}
	d.screen.ok("installed the CRD of config/crd/bases")
	var err error
	if d.operator, err = newOperator(d); err != nil {
		return err
	}
	started := time.Now()
	if err := d.startOperator(ctx); err != nil {
		return err
	}
	d.screen.ok("the operator is process %d %s; its log is %s", d.operator.pid, took(started), d.operator.logFile)
	if d.origin, err = startOrigin(d.dir); err != nil {
		return err
	}
	d.screen.ok("an origin at %s and %s tells whom it hears from", d.origin.url("http"), d.origin.url("https"))
	return nil
}

func (d *demo) startPlane(ctx context.Context) error {
	started := time.Now()
	d.screen.progress("starting etcd and kube-apiserver")
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Assets:        d.assets,
		DataDir:       filepath.Join(d.dir, "control-plane"),
		Kubeconfig:    filepath.Join(d.dir, "kubeconfig"),
		UnsafeNoFsync: true, // its data goes with the demo
	})
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	d.plane = plane
	d.onAbandon(func() {
		for _, pid := range plane.PIDs() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	go func() {
		<-plane.Done()
		if err := plane.Err(); err != nil {
			d.stop(err)
		}
	}()
	d.screen.ok("etcd and kube-apiserver at %s %s", plane.Endpoint, took(started))
	d.kube, err = newKube(d)
	return err
}

func took(started time.Time) string {
	return fmt.Sprintf("(%.1f s)", time.Since(started).Seconds())
}
