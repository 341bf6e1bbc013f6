// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// prepare finds and builds what the scenes need, before anything runs.
func (d *demo) prepare(ctx context.Context) (err error) {
	d.screen.print("%s", d.screen.bold("proxy-operator demo"))
	if _, err := os.UserCacheDir(); err != nil {
		return errors.New("neither HOME nor XDG_CACHE_HOME is set: set one, for the folder where the control plane's binaries are kept")
	}
	d.screen.scene("Start", "The operator's binary, a control plane (etcd and kube-apiserver), the CRD and the operator, all on loopback.", "")
	started := time.Now()
	if d.World, err = operator.Prepare(ctx, "demo", d.binary, "", d.screen.out); err != nil {
		return err
	}
	d.onAbandon(func() { _ = d.Remove() })
	d.onAbandon(func() { operator.KillMachines(d.StateDir()) })
	d.screen.ok("the operator is %s %s", d.Binary, took(started))
	return nil
}

// setUp starts all that the proxies need.
func (d *demo) setUp(ctx context.Context) error {
	if err := d.startPlane(ctx); err != nil {
		return err
	}
	d.kube = newKube(d)
	d.Manager.OnLaunch = func(c *child.Child) { d.onAbandon(abandon(c)) }
	d.operator = &operatorRun{Manager: d.Manager}
	started := time.Now()
	if err := d.startOperator(ctx); err != nil {
		return err
	}
	d.screen.ok("the operator is process %d %s; its log is %s", d.operator.PID, took(started), d.operator.Log)
	var err error
	if d.origin, err = startOrigin(d.Dir); err != nil {
		return err
	}
	d.screen.ok("an origin at %s and %s tells whom it hears from", d.origin.url("http"), d.origin.url("https"))
	return nil
}

func (d *demo) startPlane(ctx context.Context) error {
	started := time.Now()
	d.screen.progress("starting etcd and kube-apiserver")
	err := d.Start(ctx, d.stop)
	if d.Cluster != nil {
		d.onAbandon(func() {
			for _, pid := range d.Cluster.PIDs() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
	if err != nil {
		return err
	}
	d.screen.ok("etcd and kube-apiserver at %s, with the CRD of config/crd/bases %s", d.Cluster.Endpoint, took(started))
	return nil
}

func took(started time.Time) string {
	return fmt.Sprintf("(%.1f s)", time.Since(started).Seconds())
}
