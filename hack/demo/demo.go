// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// demo is what the scenes share.
type demo struct {
	options
	screen *screen
	tally  *tally
	stop   context.CancelCauseFunc

	*operator.World // nil until it is prepared; all that the demo writes is in its folder

	kube     *kube
	operator *operatorRun
	external *child.Child   // the proxy that the External sample points at
	endpoint netip.AddrPort // where that one listens
	origin   *origin
	samples  samples

	staying   atomic.Bool  // the scenes are over, and the user tries things
	requests  atomic.Int64 // numbers them
	crashes   int          // Proxies created for the crash
	abandoned abandonment
}

func newDemo(o options, out *os.File, stop context.CancelCauseFunc) *demo {
	return &demo{options: o, screen: newScreen(out, stop), tally: newTally(), stop: stop}
}

// play runs all scenes.
func (d *demo) play(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	scenes := []func(context.Context) error{d.setUp, d.applySamples, d.sendTraffic}
	if d.once {
		scenes = append(scenes, d.rotateSecrets, d.movePort, d.hang, d.crash, d.deleteAll)
	}
	if err := d.playScenes(ctx, scenes); err != nil || d.once {
		return err
	}
	d.staying.Store(true)
	return d.stayUp(ctx)
}

func (d *demo) playScenes(ctx context.Context, scenes []func(context.Context) error) error {
	limit := fmt.Errorf("the demo's limit of %s has passed (-timeout sets another)", d.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, limit)
	defer cancel()
	for _, scene := range scenes {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lookEvery paces until.
const lookEvery = 100 * time.Millisecond

// until looks again and again until look says that it is there. state is what there is instead, for the user who waits
// and for the error.
func (d *demo) until(ctx context.Context, what string, limit time.Duration, look func(context.Context) (there bool, state string)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not there after %s", limit))
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	defer d.screen.progressEnd()
	var state string
	for started := time.Now(); ; {
		there, now := look(ctx)
		if there {
			return nil
		}
		if ctx.Err() == nil {
			state = now // one that was cut short tells nothing
		}
		d.screen.progress("waiting for %s: %s (%d s)", what, state, int(time.Since(started).Seconds()))
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; so far: %s", what, context.Cause(ctx), state)
		case <-ticker.C:
		}
	}
}

// fail tells what went wrong, and the operator's part in it.
func (d *demo) fail(err error) {
	d.tally.failure()
	d.screen.bad("%v", err)
	if d.operator == nil || d.operator.Child == nil {
		return
	}
	if last := d.operator.LastLines(15); last != "" {
		d.screen.note("the operator's last lines:")
		d.screen.block(last)
	}
}
