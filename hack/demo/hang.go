// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// hang stops a proxy's process: for the system it runs on, but nobody gets an answer.
func (d *demo) hang(ctx context.Context) error {
	d.screen.scene("A proxy hangs",
		"Its process is stopped, not ended: it still holds its port. Only requests through it tell that it doesn't work. Here a",
		fmt.Sprintf("proxy is probed every second and replaced when it was unhealthy for %s; by default it is 15 s and 2 minutes.", unhealthyTimeout), "")
	p, err := plain(d.samples.proxies)
	if err != nil {
		return err
	}
	ids, err := d.providerIDs(ctx)
	if err != nil {
		return err
	}
	pids, err := d.pids()
	if err != nil {
		return err
	}
	pid := pids[ids[p.Name]]
	if pid == 0 {
		return fmt.Errorf("find the process of %s: %s has none", p.Name, ids[p.Name])
	}
	started := time.Now()
	d.screen.command(fmt.Sprintf("kill -STOP %d    # of %s", pid, p.Name))
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the process of %s: %w", p.Name, err)
	}
	if err := d.awaitProxies(ctx, "an unhealthy Proxy", []string{p.Name}, isUnhealthy); err != nil {
		return err
	}
	d.screen.ok("found unhealthy %s", took(started))
	if err := d.kube.show(ctx, "get", "proxies"); err != nil {
		return err
	}
	if err := d.awaitReplaced(ctx, []string{p.Name}, ids); err != nil {
		return err
	}
	d.screen.print("")
	return errors.Join(d.showReplacement(ctx, p.Name, ids, took(started)), d.checkEnded(ctx, p.Name, pid))
}

// showReplacement shows the new machine, and what the user can read of why it is there.
func (d *demo) showReplacement(ctx context.Context, name string, before map[string]string, elapsed string) error {
	d.screen.ok("replaced %s: what hangs doesn't end when it is asked to, and is killed after 10 s", elapsed)
	if err := d.kube.show(ctx, "events", "--for=proxy/"+name); err != nil {
		return err
	}
	if err := d.showReplaced(ctx, []string{name}, before); err != nil {
		return err
	}
	targets, err := d.targets(ctx, name)
	if err != nil {
		return err
	}
	return d.showRequests(ctx, targets)
}

// checkEnded checks that nothing is left of the process that hung.
func (d *demo) checkEnded(ctx context.Context, name string, pid int) error {
	running, err := operator.RunningMachines(ctx, d.StateDir())
	if err != nil {
		return err
	}
	ended := true
	for _, m := range running {
		ended = ended && m.PID != pid
	}
	d.check(ended, "process %d of %s is gone", pid, name)
	return nil
}

// isUnhealthy reports whether the operator says so.
func isUnhealthy(p *v1alpha1.Proxy) (bool, string) {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	if c == nil {
		return false, p.Name + ": isn't probed"
	}
	return c.Status == metav1.ConditionFalse, fmt.Sprintf("%s: Healthy is %s: %s", p.Name, c.Status, c.Message)
}
