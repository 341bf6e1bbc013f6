// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// end takes away all that the demo has started, whatever state it is in, and counts what is left. It keeps the
// operator's log of a demo that failed.
func (d *demo) end(failed bool) {
	ctx := context.Background()
	var errs []error
	if d.operator != nil {
		d.operator.wanted.Store(false)
	}
	if d.external != nil {
		errs = append(errs, d.external.End(externalGrace))
	}
	if d.origin != nil {
		errs = append(errs, d.origin.close())
	}
	if d.World != nil {
		if failed {
			errs = append(errs, d.keepLog())
		}
		errs = append(errs, d.End(ctx))
		running, err := operator.Processes(ctx, d.Dir)
		errs = append(errs, err)
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
	kept, err := d.KeepLog()
	if kept != "" {
		d.screen.note("the operator's whole log is kept in %s", kept)
	}
	return err
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
