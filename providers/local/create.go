// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/proxy-operator/proxy-operator/providers"
)

const opCreate = "create instance"

// Create writes the instance's record and starts its process. It returns once the process holds its lock, from when on
// everybody can tell that it lives; that it serves is for Get to say. A repeat returns what the first call made, also
// when its process has ended since, and starts a process only where a crash kept the first call from it.
func (p *Provider) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	if err := req.Consistent(opCreate, p.account); err != nil {
		return providers.Instance{}, err
	}
	if err := p.Check(req); err != nil {
		return providers.Instance{}, err
	}
	pl := p.place(req.Key.Zone, req.Name)
	l, err := p.makeAndLock(ctx, pl)
	if err != nil {
		return providers.Instance{}, fail(opCreate, err)
	}
	return p.createLocked(ctx, l, pl, req)
}

// createLocked does the work beside the caller, so that a caller whose ctx ends gets its answer at once while the place
// stays locked until it is certain what became of the process.
func (p *Provider) createLocked(ctx context.Context, l *dirLock, pl place, req providers.CreateRequest) (providers.Instance, error) {
	type answer struct {
		inst providers.Instance
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		inst, err := p.ensure(ctx, pl, req)
		if err := l.unlock(); err != nil {
			p.opts.Log.Error(err, "Unlock instance", "instance", pl.name)
		}
		done <- answer{inst, err}
	}()
	select {
	case a := <-done:
		return a.inst, fail(opCreate, a.err)
	case <-ctx.Done():
		return providers.Instance{}, &providers.Error{Class: providers.Ambiguous, Op: opCreate, Err: ctx.Err()}
	}
}

// makeAndLock makes the instance's directory and locks it. A sweep may take the empty directory away in between.
func (p *Provider) makeAndLock(ctx context.Context, pl place) (*dirLock, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.makeFolder(pl); err != nil {
			return nil, fmt.Errorf("make state directory: %w", err)
		}
		if err := os.Mkdir(pl.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make instance directory: %w", err)
		}
		p.reached("directory made")
		l, err := lockDir(ctx, p.opts.Clock, pl.dir)
		if !errors.Is(err, os.ErrNotExist) {
			return l, err
		}
	}
}

// ensure looks what is in the locked place and does what is missing.
func (p *Provider) ensure(ctx context.Context, pl place, req providers.CreateRequest) (providers.Instance, error) {
	r, err := readRecord(pl)
	switch {
	case errors.Is(err, errNoRecord):
		if err := p.empty(ctx, pl); err != nil {
			return providers.Instance{}, err
		}
		r, err = p.prepare(ctx, pl, req)
		return p.run(ctx, pl, r, err)
	case err != nil:
		return providers.Instance{}, fmt.Errorf("read record: %w", err)
	case !r.of(req.Tags) || r.Account != p.account:
		return providers.Instance{}, providers.Conflict(opCreate, req.Name)
	}
	if ran, err := everRan(pl); ran || err != nil || r.deleting() {
		return p.known(ctx, pl, r, err)
	}
	r, err = p.resettle(ctx, pl, r)
	return p.run(ctx, pl, r, err)
}

// run starts the process of an instance whose record is written, unless err says that it isn't. When there is no
// process in the end, there is no instance either.
func (p *Provider) run(ctx context.Context, pl place, r record, err error) (providers.Instance, error) {
	if err == nil {
		err = ctx.Err() // nothing is started for a caller who has gone
	}
	if err == nil {
		err = p.start(pl, r)
	}
	if err != nil {
		return providers.Instance{}, p.undo(pl, err)
	}
	return p.instance(pl, r, providers.StateProvisioning), nil
}

// known answers a repeat: the place is locked by us, so the lock of its process tells all.
func (p *Provider) known(ctx context.Context, pl place, r record, err error) (providers.Instance, error) {
	if err != nil {
		return providers.Instance{}, err
	}
	pid, held, err := lockHolder(pl.lock())
	if err != nil {
		return providers.Instance{}, err
	}
	return p.observe(ctx, pl, r, pid, held), nil
}

// prepare fills the directory and writes the record, from when on the instance exists.
func (p *Provider) prepare(ctx context.Context, pl place, req providers.CreateRequest) (record, error) {
	if err := writeInputs(pl, req); err != nil {
		return record{}, err
	}
	p.reached("inputs written")
	r := record{
		Account: p.account, Zone: pl.zone, Name: pl.name, Tags: req.Tags, Labels: req.Labels,
		Port: req.Port, Auth: req.Username != "", CreatedAt: p.opts.Clock.Now().UTC(),
	}
	return p.settle(ctx, pl, r, req.Port)
}

// resettle finds a place to listen for an instance whose first one may be taken by now: by somebody else, not by a
// process of its own that a crashed operator started a moment ago.
func (p *Provider) resettle(ctx context.Context, pl place, r record) (record, error) {
	if _, err := probe(r.Address, r.Port); err == nil {
		return r, nil
	}
	if ran, err := everRan(pl); ran || err != nil {
		return r, err
	}
	return p.settle(ctx, pl, r, r.Port)
}

// settle chooses the address and writes the record under the lock of the state directory, so that no two instances
// choose the same.
func (p *Provider) settle(ctx context.Context, pl place, r record, port int32) (record, error) {
	l, err := lockDir(ctx, p.opts.Clock, p.opts.StateDir)
	if err != nil {
		return record{}, fmt.Errorf("lock state directory: %w", err)
	}
	if r.Address, r.Port, err = p.choose(pl.name, port); err == nil {
		err = writeRecord(pl, r)
	}
	if err = errors.Join(err, l.unlock()); err != nil {
		return record{}, err
	}
	p.reached("record written")
	return r, nil
}

// empty clears what a crashed create, or the loss of a record, left in a directory without one.
func (p *Provider) empty(ctx context.Context, pl place) error {
	if err := p.killUnrecorded(ctx, pl); err != nil {
		return err
	}
	entries, err := os.ReadDir(pl.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(pl.dir, e.Name())))
	}
	return err
}

// undo takes everything back, so that err can promise that nothing was made.
func (p *Provider) undo(pl place, err error) error {
	if _, undoErr := p.discard(pl); undoErr != nil {
		return &providers.Error{Class: providers.Ambiguous, Op: opCreate, Err: errors.Join(err, undoErr)}
	}
	return err
}
