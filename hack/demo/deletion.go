// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/local"
)

const (
	goneLimit = 40 * time.Second // for processes; they are killed after 10 s
	// settle is what the operator adds to a create's deadline for what no clock bounds exactly.
	settle = time.Minute
	// openLimit is far beyond the time for which a create can be open.
	openLimit = 3 * time.Minute
)

// deleteAll deletes everything and shows that nothing is left.
func (d *demo) deleteAll(ctx context.Context) error {
	d.screen.scene("Everything is deleted", "")
	started := time.Now()
	for _, args := range [][]string{
		append([]string{"delete", "--wait=false"}, d.samples.args...),
		{"delete", "--wait=false", "proxies", "--all"},
	} {
		if err := d.kube.show(ctx, args...); err != nil {
			return err
		}
	}
	d.screen.print("")
	if err := d.awaitInstancesGone(ctx); err != nil {
		return err
	}
	d.screen.ok("no process is left, and nothing on disk %s", took(started))
	d.check(connects(ctx, d.endpoint.String()), "the external proxy at %s still serves: who started it ends it", d.endpoint)
	if err := d.awaitObjectsGone(ctx); err != nil {
		return err
	}
	d.screen.ok("no Proxy is left %s", took(started))
	left, err := d.leftOver(ctx)
	d.tally.leftBehind(left)
	return err
}

// leftOver counts what the operator should have taken away.
func (d *demo) leftOver(ctx context.Context) (int, error) {
	running, err := operator.Processes(ctx, d.StateDir())
	if err != nil {
		return 0, err
	}
	dirs, err := operator.MachineDirs(d.StateDir())
	if err != nil {
		return 0, err
	}
	proxies, err := d.kube.proxies(ctx)
	return len(running) + len(dirs) + len(proxies), err
}

func (d *demo) awaitInstancesGone(ctx context.Context) error {
	return d.until(ctx, "the end of all machines", goneLimit, func(ctx context.Context) (bool, string) {
		running, err := operator.Processes(ctx, d.StateDir())
		if err != nil {
			return false, err.Error()
		}
		dirs, err := operator.MachineDirs(d.StateDir())
		if err != nil {
			return false, err.Error()
		}
		return len(running)+len(dirs) == 0, fmt.Sprintf("%d processes and %d folders are left", len(running), len(dirs))
	})
}

// awaitObjectsGone waits for the finalizers. After a kill the operator can't know whether a create is still on its way,
// and keeps those Proxies until it would be too late for one.
func (d *demo) awaitObjectsGone(ctx context.Context) error {
	deadline, err := createDeadline()
	if err != nil {
		return err
	}
	told := false
	return d.until(ctx, "the last Proxies to go", openLimit, func(ctx context.Context) (bool, string) {
		proxies, err := d.kube.proxies(ctx)
		if err != nil {
			return false, cause(err)
		}
		left := secondsLeft(proxies, deadline, time.Now())
		if !told && left > 0 {
			d.screen.note("%d Proxies were created before the kill -9: the new operator can't know whether a create of the old one is", len(proxies))
			d.screen.note("still on its way, so it lets go of them only when it would be too late for one: %d s left", left)
			told = true
		}
		return len(proxies) == 0, fmt.Sprintf("%d are left, %d s", len(proxies), left)
	})
}

// createDeadline is how long after its intent a create of the account local may take effect.
func createDeadline() (time.Duration, error) {
	p, _, err := local.Factory(local.Options{StateDir: "/"})("local", providers.Section{})
	if err != nil {
		return 0, fmt.Errorf("ask provider local: %w", err)
	}
	return p.Traits().Deadline() + p.Traits().Lag + settle, nil
}

// secondsLeft is the time until the newest create among the Proxies is past its deadline; 0 if all are.
func secondsLeft(proxies []v1alpha1.Proxy, deadline time.Duration, now time.Time) int {
	var left time.Duration
	for i := range proxies {
		if in := intent(&proxies[i]); in != nil {
			left = max(left, in.At.Add(deadline).Sub(now))
		}
	}
	return int((left + time.Second - 1) / time.Second)
}
