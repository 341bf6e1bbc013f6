// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// probeInterval is the time from probe to probe of a proxy, shorter than by default: what probes cost is to show.
const probeInterval = 5 * time.Second

// world is what is measured: a control plane and the manager, as a user runs them.
type world struct {
	options
	*operator.World
	kube client.WithWatch
	http *http.Client // the API server's, with the admin's certificate

	fail      context.CancelCauseFunc // called when something ends that should run
	expectEnd func()                  // lets the manager end, this time
}

// newWorld finds and builds what is needed; nothing runs yet.
func newWorld(ctx context.Context, o options) (*world, error) {
	w, err := operator.Prepare(ctx, "bench", o.binary, "", os.Stderr)
	return &world{options: o, World: w}, err
}

// start starts everything, and returns once the manager sees the cluster. fail is called when something ends that should
// run.
func (w *world) start(ctx context.Context, fail context.CancelCauseFunc) (err error) {
	w.fail = fail
	progress("starting the control plane and the manager")
	if err := w.Start(ctx, fail); err != nil {
		return err
	}
	w.kube = w.Cluster.Client
	if w.http, err = rest.HTTPClientFor(w.Cluster.Config); err != nil {
		return fmt.Errorf("connect to the control plane: %w", err)
	}
	if err := w.kube.Create(ctx, secret()); err != nil {
		return fmt.Errorf("create the cloud-init Secret: %w", err)
	}
	return w.launch(ctx, "--health-interval="+probeInterval.String())
}

// launch returns once the manager sees the cluster.
func (w *world) launch(ctx context.Context, args ...string) error {
	if err := w.Manager.LaunchReady(ctx, args...); err != nil {
		return err
	}
	w.expectEnd = w.Manager.FailOnEnd(w.fail)
	return nil
}

// tellOfManager shows what the manager had to say, as it is the first suspect when something goes wrong.
func (w *world) tellOfManager() {
	if w.Launched() {
		progress("the manager's last lines:\n%s", w.Manager.LastLines(15))
	}
}
