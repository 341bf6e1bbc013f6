// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const endLimit = 15 * time.Second

// end takes away all that the demo has started, whatever state it is in, and counts what is left. It keeps the
// operator's log of a demo that failed.
func (d *demo) end(failed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	var errs []error
	if d.operator != nil && d.operator.Child != nil {
		d.operator.wanted.Store(false)
		errs = append(errs, d.operator.End(operator.Grace))
	}
	if d.scratch != nil {
		errs = append(errs, operator.EndMachines(ctx, d.scratch.StateDir()))
	}
	if d.external != nil {
		errs = append(errs, d.external.End(externalGrace))
	}
	if d.origin != nil {
		errs = append(errs, d.origin.close())
	}
	if d.plane != nil {
		errs = append(errs, d.plane.Stop())
	}
	if failed {
		errs = append(errs, d.keepLog())
	}
	if d.scratch != nil {
		running, err := operator.Processes(ctx, d.scratch.Dir)
		errs = append(errs, err, d.scratch.Remove())
		d.tally.leftBehind(len(running))
	}
	if err := errors.Join(errs...); err != nil {
		d.tally.failure()
		d.screen.bad("clean up: %v", err)
	}
	d.screen.print("")
}

// leftovers is the last line's word on the end.
func (d *demo) leftovers() string {
	if left := d.tally.left(); left > 0 {
		return fmt.Sprintf("%d processes are left behind", left)
	}
	return "everything that the demo started has ended, and its folder is removed"
}

func (d *demo) keepLog() error {
	if d.operator == nil || d.operator.Child == nil {
		return nil
	}
	kept := d.scratch.Dir + ".log"
	if err := os.Rename(d.operator.Log, kept); err != nil {
		return fmt.Errorf("keep the operator's log: %w", err)
	}
	d.screen.note("the operator's whole log is kept in %s", kept)
	return nil
}

// onAbandon has do done when the user won't wait for end.
func (d *demo) onAbandon(do func()) {
	d.abandoned.Lock()
	defer d.abandoned.Unlock()
	d.abandoned.todo = append(d.abandoned.todo, do)
}

// abandonment is what is to be done when there is no time.
type abandonment struct {
	sync.Mutex
	todo []func()
}

// abandon kills everything at once, the newest first.
func (d *demo) abandon() {
	d.abandoned.Lock()
	defer d.abandoned.Unlock()
	for i := len(d.abandoned.todo) - 1; i >= 0; i-- {
		d.abandoned.todo[i]()
	}
}
