// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/cluster/controlplane"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// prepare finds and builds what the scenes need, before anything runs.
func (d *demo) prepare(ctx context.Context) (err error) {
	d.screen.print("%s", d.screen.bold("proxy-operator demo"))
	if _, err := os.UserCacheDir(); err != nil {
		return errors.New("neither HOME nor XDG_CACHE_HOME is set: set one, for the folder where the control plane's binaries are kept")
	}
	if d.root, err = operator.Checkout(); err != nil {
		return err
	}
	for _, dir := range operator.SweepScratch("", "demo") {
		d.screen.note("removed what an earlier demo, which was killed, had left in %s", dir)
	}
	if d.scratch, err = operator.NewScratch("", "demo"); err != nil {
		return err
	}
	d.onAbandon(func() { _ = d.scratch.Remove() })
	d.onAbandon(func() { operator.KillMachines(d.scratch.StateDir()) })
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

// build makes the operator's binary, unless one is given.
func (d *demo) build(ctx context.Context) (err error) {
	started, given := time.Now(), d.binary
	if given == "" {
		d.screen.progress("building the operator")
	}
	if d.binary, err = operator.Binary(ctx, d.root, given); err != nil {
		return err
	}
	if given == "" {
		d.screen.ok("built bin/proxy-operator %s", took(started))
	} else {
		d.screen.ok("the operator is %s", d.binary)
	}
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
	d.screen.ok("the operator is process %d %s; its log is %s", d.operator.PID, took(started), d.operator.Log)
	if d.origin, err = startOrigin(d.scratch.Dir); err != nil {
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
		DataDir:       filepath.Join(d.scratch.Dir, "control-plane"),
		Kubeconfig:    filepath.Join(d.scratch.Dir, "kubeconfig"),
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
