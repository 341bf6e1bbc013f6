// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

const (
	dirPrefix = "proxy-operator-demo-"
	dirLock   = "demo.lock" // held while the demo lives

	// youngest is the age from which the folder of a demo without a process is taken for one that was killed.
	youngest = 10 * time.Second

	endLimit  = 15 * time.Second
	killAfter = 3 * time.Second // instances get as long to end in order
)

// end takes away all that the demo has started, whatever state it is in, and counts what is left. It keeps the
// operator's log of a demo that failed.
func (d *demo) end(failed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	var errs []error
	if d.operator != nil && d.operator.child != nil {
		d.operator.wanted.Store(false)
		errs = append(errs, d.operator.end(operatorGrace))
	}
	if d.dir != "" {
		errs = append(errs, endInstances(ctx, d.stateDir()))
	}
	if d.external != nil {
		errs = append(errs, d.external.end(externalGrace))
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
	if d.dir != "" {
		running, err := processes(ctx, d.dir)
		errs = append(errs, err, os.RemoveAll(d.dir))
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
	if d.operator == nil || d.operator.child == nil {
		return nil
	}
	kept := d.dir + ".log"
	if err := os.Rename(d.operator.logFile, kept); err != nil {
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

func (c *child) abandon() {
	_ = c.signal(syscall.SIGKILL) // nobody waits for the answer
}

// endInstances ends what the operator hasn't: first politely, then by force.
func endInstances(ctx context.Context, stateDir string) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for started, asked := time.Now(), map[string]bool{}; ; {
		all, err := instances(stateDir)
		if err != nil {
			return err
		}
		living := 0
		for _, i := range all {
			if i.pid == 0 {
				continue
			}
			living++
			switch {
			case time.Since(started) > killAfter:
				killHolder(i.dir, syscall.SIGKILL)
			case !asked[i.name]: // a second SIGTERM would cut its grace short
				asked[i.name] = true
				killHolder(i.dir, syscall.SIGTERM)
			}
		}
		if living == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end machines: %w; %d are left", ctx.Err(), living)
		case <-ticker.C:
		}
	}
}

// killHolder signals the process that holds an instance's lock now.
func killHolder(dir string, s syscall.Signal) {
	if pid, held, err := processlock.Holder(lockOf(dir)); err == nil && held && pid > 0 {
		_ = syscall.Kill(pid, s) // the caller looks what came of it
	}
}

// killInstances does it at once.
func killInstances(stateDir string) {
	all, err := instances(stateDir)
	if err != nil {
		return
	}
	for _, i := range all {
		killHolder(i.dir, syscall.SIGKILL)
	}
}

// sweepDead takes away what demos have left that were killed.
func sweepDead(s *screen) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if !isDead(dir) {
			continue
		}
		killInstances(filepath.Join(dir, "instances"))
		if err := os.RemoveAll(dir); err == nil {
			s.note("removed what an earlier demo, which was killed, had left in %s", dir)
		}
	}
}

// isDead reports whether dir is the folder of a demo of this user that doesn't run any more.
func isDead(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || time.Since(info.ModTime()) < youngest {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return false
	}
	_, held, err := processlock.Holder(filepath.Join(dir, dirLock))
	return err == nil && !held
}
