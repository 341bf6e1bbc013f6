// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// discard removes a locked place. First the directory loses its name in one step: from then on no process can take its
// lock any more, not even one that a crashed operator started a moment ago, and a crash in the middle of the removal
// leaves no half instance. It reports whether all is gone.
func (p *Provider) discard(pl place) (bool, error) {
	if gone, err := removeTrash(pl); err != nil || !gone {
		return false, err
	}
	err := os.Rename(pl.dir, pl.trash())
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	p.reached("renamed")
	return removeTrash(pl)
}

// errLives tells of a process that nobody owns and that can't be ended.
var errLives = errors.New("record is lost and the process lives on; end it")

// discardUnrecorded discards a locked place without a record, and ends the process that it may have.
func (p *Provider) discardUnrecorded(ctx context.Context, pl place) (bool, error) {
	if err := p.killUnrecorded(ctx, pl); err != nil {
		return false, err
	}
	return p.discard(pl)
}

// killUnrecorded kills the process of a locked place without a record, which is nobody's, and waits for its end. There is
// no grace: a list must not leave out a process that lives, and can't tell whose it is.
func (p *Provider) killUnrecorded(ctx context.Context, pl place) error {
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	for first := true; ; first = false {
		pid, held, err := lockHolder(pl.lock())
		if err != nil || !held {
			return err
		}
		if first {
			p.opts.Log.Info("Kill process whose record is lost: nobody can own it", "instance", pl.name, "pid", pid)
		}
		if err := signalHolder(pl.lock(), syscall.SIGKILL); err != nil {
			return fmt.Errorf("%s: %w: %w", pl.lock(), errLives, err)
		}
		if err := pause(ctx, p.opts.Clock); err != nil {
			return fmt.Errorf("%s: %w: %w", pl.lock(), errLives, err)
		}
	}
}

// removeTrash removes what discard renamed, and reports whether all is gone. A process that took its lock just before
// the rename is killed, and its files stay for the next sweep.
func removeTrash(pl place) (bool, error) {
	lock := filepath.Join(pl.trash(), lockName)
	_, held, err := lockHolder(lock)
	if err != nil {
		return false, err
	}
	if held {
		return false, signalHolder(lock, syscall.SIGKILL)
	}
	return true, os.RemoveAll(pl.trash())
}

// sweepUnrecorded discards what a create that crashed before its record has left, and what has lost its record. A create
// that is under way holds the place's lock.
func (p *Provider) sweepUnrecorded(ctx context.Context, pl place) error {
	l, err := tryLockDir(pl.dir, unix.LOCK_EX)
	if errors.Is(err, errBusy) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = readRecord(pl); errors.Is(err, errNoRecord) {
		_, err = p.discardUnrecorded(ctx, pl)
	}
	return errors.Join(err, l.unlock())
}

// sweep finishes interrupted removals. One that can't be finished is no instance and in nobody's way but that of its own
// name.
func (p *Provider) sweep() error {
	var trash []place
	err := p.eachEntry(func(zone, entry string) {
		if name, ok := trashed(entry); ok {
			trash = append(trash, p.place(zone, name))
		}
	})
	for _, pl := range trash {
		if _, err := removeTrash(pl); err != nil {
			p.opts.Log.Error(err, "Remove what a delete left", "instance", pl.name)
		}
	}
	return err
}
