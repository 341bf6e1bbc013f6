// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// unhealthyTimeout is how long a proxy may be unhealthy before it is replaced.
const unhealthyTimeout = 5 * time.Second

// operatorRun is the manager, which the demo starts more than once.
type operatorRun struct {
	*operator.Manager
	wanted atomic.Bool // it should run: its end is a failure
}

// probeFlags let the demo end soon. What is by default is ten times slower.
func probeFlags() []string {
	return []string{"--health-interval=1s", "--health-timeout=1s", "--unhealthy-timeout=" + unhealthyTimeout.String()}
}

// abandon kills the process. Nobody waits for the answer.
func abandon(c *child.Child) func() {
	return func() { _ = c.Signal(syscall.SIGKILL) }
}

// startOperator returns once the operator sees the cluster.
func (d *demo) startOperator(ctx context.Context) error {
	d.screen.progress("waiting for the operator to be ready")
	defer d.screen.progressEnd()
	o := d.operator
	if err := o.LaunchReady(ctx, slices.Concat([]string{"--log-format=console"}, probeFlags())...); err != nil {
		return err
	}
	o.wanted.Store(true)
	go func(c *child.Child) {
		<-c.Done()
		if o.wanted.Load() && !d.staying.Load() {
			d.stop(c.How())
		}
	}(o.Child)
	return nil
}

// stopNow kills the operator as a crash or the kernel would.
func (o *operatorRun) stopNow() error {
	o.wanted.Store(false)
	return o.Kill()
}

// cause is the innermost part of an error, short enough for a table.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
