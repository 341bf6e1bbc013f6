// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proxy-operator/proxy-operator/providers"
)

const opDelete = "delete instance"

// Delete marks the instance and asks its process to end. The process is killed when it is still there after the grace;
// then the directory goes, with credentials and user data. What a crash or an error interrupts, the next Delete, Get or
// list resumes.
func (p *Provider) Delete(ctx context.Context, ref providers.Ref) error {
	pl, err := p.find(opDelete, ref)
	if err != nil {
		return err
	}
	l, err := lockDir(ctx, p.opts.Clock, pl.dir)
	if errors.Is(err, os.ErrNotExist) {
		return p.deleteTrash(pl, ref)
	}
	if err != nil {
		return fail(opDelete, err)
	}
	err = p.deleteLocked(ctx, pl, ref)
	return fail(opDelete, errors.Join(err, l.unlock()))
}

func (p *Provider) deleteLocked(ctx context.Context, pl place, ref providers.Ref) error {
	r, err := readRecord(pl)
	if errors.Is(err, errNoRecord) {
		if gone, err := p.discardUnrecorded(ctx, pl); err != nil || !gone {
			return ambiguous(err)
		}
		return providers.Gone(opDelete, ref)
	}
	if err != nil {
		return err
	}
	if r.Account != p.account {
		return providers.Gone(opDelete, ref)
	}
	if !r.deleting() {
		r.DeletingSince = p.opts.Clock.Now().UTC()
		if err := writeRecord(pl, r); err != nil {
			return ambiguous(err)
		}
	}
	p.reached("marked")
	_, held, err := lockHolder(pl.lock())
	if err != nil {
		return ambiguous(err)
	}
	if !held {
		_, err := p.discard(pl)
		return ambiguous(err)
	}
	p.end(context.WithoutCancel(ctx), pl, r)
	return nil
}

// deleteTrash finishes a delete that was interrupted after the directory lost its name.
func (p *Provider) deleteTrash(pl place, ref providers.Ref) error {
	gone, err := removeTrash(pl)
	if err != nil {
		return fail(opDelete, err)
	}
	if !gone {
		return nil
	}
	return providers.Gone(opDelete, ref)
}

// end starts what brings the process to its end, unless this value is at it already.
func (p *Provider) end(ctx context.Context, pl place, r record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending[pl.dir] {
		return
	}
	p.ending[pl.dir] = true
	go func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.ending, pl.dir)
		}()
		if err := p.terminate(ctx, pl, r); err != nil {
			p.opts.Log.Error(err, "End process; the next read or delete tries again", "instance", pl.name)
		}
	}()
}

// terminate asks the process to end, kills it after the grace, and removes the directory. It does nothing while another
// operator is at it.
func (p *Provider) terminate(ctx context.Context, pl place, r record) error {
	l, err := tryLockRecord(pl)
	if errors.Is(err, errBusy) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = p.terminateAlone(ctx, pl, p.graceLeft(r))
	return errors.Join(err, l.unlock())
}

// graceLeft is never longer than the grace, whatever became of the clock since the mark was made.
func (p *Provider) graceLeft(r record) time.Duration {
	left := r.DeletingSince.Add(stopGrace).Sub(p.opts.Clock.Now())
	return min(max(left, 0), stopGrace)
}

func (p *Provider) terminateAlone(ctx context.Context, pl place, grace time.Duration) error {
	killAt := p.opts.Clock.Now().Add(grace)
	ctx, cancel := context.WithTimeout(ctx, grace+callDeadline)
	defer cancel()
	if err := signalHolder(pl.lock(), syscall.SIGTERM); err != nil {
		return err
	}
	p.reached("signalled")
	for {
		_, held, err := lockHolder(pl.lock())
		if err != nil {
			return err
		}
		if !held {
			_, err = p.finishWaiting(ctx, pl)
			return err
		}
		if !p.opts.Clock.Now().Before(killAt) {
			if err := signalHolder(pl.lock(), syscall.SIGKILL); err != nil {
				return err
			}
		}
		if err := pause(ctx, p.opts.Clock); err != nil {
			return fmt.Errorf("wait for the end of the process: %w", err)
		}
	}
}

// finishWaiting removes the directory of a deleted instance whose process has ended.
func (p *Provider) finishWaiting(ctx context.Context, pl place) (bool, error) {
	l, err := lockDir(ctx, p.opts.Clock, pl.dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	gone, err := p.discardDeleted(pl)
	return gone, errors.Join(err, l.unlock())
}

// finish is finishWaiting for readers, who don't wait: fs.ErrNotExist once nothing is left.
func (p *Provider) finish(pl place, r record) (providers.Instance, error) {
	l, err := tryLockDir(pl.dir, unix.LOCK_EX)
	if errors.Is(err, errBusy) {
		return p.instance(pl, r, providers.StateDeleting), nil
	}
	if err != nil {
		return providers.Instance{}, err
	}
	gone, err := p.discardDeleted(pl)
	if err = errors.Join(err, l.unlock()); err != nil {
		return providers.Instance{}, err
	}
	if gone {
		return providers.Instance{}, os.ErrNotExist
	}
	return p.instance(pl, r, providers.StateDeleting), nil
}

// discardDeleted discards the locked place if it is still that of a deleted instance without a process. It may be that
// of a new one by now.
func (p *Provider) discardDeleted(pl place) (bool, error) {
	r, err := readRecord(pl)
	if err != nil || !r.deleting() {
		return false, err
	}
	_, held, err := lockHolder(pl.lock())
	if err != nil || held {
		return false, err
	}
	return p.discard(pl)
}
