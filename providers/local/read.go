// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	opGet  = "get instance"
	opList = "list instances"
	// outputLimit is where a process's output is cut, so that a busy proxy can't fill the disk.
	outputLimit = 8 << 20
)

// Get tells what the record and the process's lock say.
func (p *Provider) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	pl, err := p.find(opGet, ref)
	if err != nil {
		return providers.Instance{}, err
	}
	if err := ctx.Err(); err != nil {
		return providers.Instance{}, fail(opGet, err)
	}
	inst, err := p.look(ctx, pl)
	if errors.Is(err, errNoRecord) {
		if err := p.sweepUnrecorded(ctx, pl); err != nil {
			return providers.Instance{}, fail(opGet, err)
		}
		return providers.Instance{}, providers.Gone(opGet, ref)
	}
	if errors.Is(err, os.ErrNotExist) {
		return providers.Instance{}, providers.Gone(opGet, ref)
	}
	if err != nil {
		return providers.Instance{}, fail(opGet, err)
	}
	return inst, nil
}

// ListByTag reads every record of the account, in every zone folder. On its way it sweeps what crashed creates and
// deletes have left: none of that is an instance.
func (p *Provider) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, fail(opList, err)
	}
	if err := p.sweep(); err != nil {
		return nil, fail(opList, err)
	}
	places, err := p.scan()
	if err != nil {
		return nil, fail(opList, err)
	}
	found := []providers.Instance{}
	for _, pl := range places {
		if err := ctx.Err(); err != nil {
			return nil, fail(opList, err)
		}
		inst, ours, err := p.lookFor(ctx, pl, sel)
		if err != nil {
			return nil, fail(opList, fmt.Errorf("look at %s: %w", pl.name, err))
		}
		if ours {
			p.cutOutput(pl)
			found = append(found, inst)
		}
	}
	return found, nil
}

// lookFor returns the instance at a place if the selector matches it. What is wrong with the places of others is logged.
func (p *Provider) lookFor(ctx context.Context, pl place, sel providers.Selector) (providers.Instance, bool, error) {
	inst, err := p.look(ctx, pl)
	switch {
	case err == nil:
		return inst, sel.Matches(inst.Tags), nil
	case errors.Is(err, os.ErrNotExist):
		return inst, false, nil
	case errors.Is(err, errNoRecord):
		err = p.sweepUnrecorded(ctx, pl)
		if errors.Is(err, errLives) {
			return inst, false, err
		}
	case inst.Name == "" || sel.Matches(inst.Tags):
		return inst, false, err
	}
	if err != nil {
		p.opts.Log.Error(err, "Look at instance of another owner or of none", "instance", pl.name)
	}
	return inst, false, nil
}

// look returns the instance of this account at a place, fs.ErrNotExist or errNoRecord. With any other error the instance
// has the name and tags if they could be read. It goes on with a delete that was interrupted.
func (p *Provider) look(ctx context.Context, pl place) (providers.Instance, error) {
	r, err := readRecord(pl)
	if err != nil {
		return providers.Instance{}, err
	}
	if r.Account != p.account {
		return providers.Instance{}, os.ErrNotExist
	}
	pid, held, err := lockHolder(pl.lock())
	if err != nil {
		return p.instance(pl, r, ""), err
	}
	if held {
		return p.observe(ctx, pl, r, pid, held), nil
	}
	if r.deleting() {
		return p.finish(pl, r)
	}
	return p.lookLocked(ctx, pl, r)
}

// observe is the instance as the facts tell. A process that is marked to end is ended: the operator that marked it may
// have crashed, or failed, before it was ended.
func (p *Provider) observe(ctx context.Context, pl place, r record, pid int, held bool) providers.Instance {
	if held && r.deleting() {
		p.end(context.WithoutCancel(ctx), pl, r)
	}
	return p.instance(pl, r, state(pl, r, pid, held))
}

// lookLocked tells a process that ended from one that is just being started: a create keeps the place locked until its
// process holds its own lock.
func (p *Provider) lookLocked(ctx context.Context, pl place, r record) (providers.Instance, error) {
	l, err := tryLockDir(pl.dir, unix.LOCK_SH)
	if errors.Is(err, errBusy) {
		r, err := readRecord(pl)
		if err != nil {
			return providers.Instance{}, err
		}
		return p.instance(pl, r, state(pl, r, 0, true)), nil
	}
	if err != nil {
		return p.instance(pl, r, ""), err
	}
	r, err = readRecord(pl)
	if err != nil {
		return providers.Instance{}, errors.Join(err, l.unlock())
	}
	pid, held, err := lockHolder(pl.lock())
	if err = errors.Join(err, l.unlock()); err != nil {
		return p.instance(pl, r, ""), err
	}
	return p.observe(ctx, pl, r, pid, held), nil
}

// state maps the facts to a state. The caller knows that no create is under way.
func state(pl place, r record, pid int, held bool) providers.InstanceState {
	switch {
	case r.deleting():
		return providers.StateDeleting
	case !held:
		return providers.StateStopped
	case serving(pl, pid):
		return providers.StateRunning
	default:
		return providers.StateProvisioning
	}
}

// serving reports whether the process has said that it accepts connections. The file of an earlier process counts for
// nothing. pid is 0 where the process is in another PID namespace.
func serving(pl place, pid int) bool {
	raw, err := readRegular(pl.ready())
	if err != nil {
		return false
	}
	var ready struct {
		PID int `json:"pid"`
	}
	return json.Unmarshal(raw, &ready) == nil && (pid == 0 || ready.PID == pid)
}

func (p *Provider) instance(pl place, r record, s providers.InstanceState) providers.Instance {
	return providers.Instance{
		Ref: p.ref(pl), Name: r.Name, Zone: r.Zone, State: s, IP: r.Address, Port: r.Port,
		Tags: r.Tags, CreatedAt: r.CreatedAt,
	}
}

// cutOutput empties the output of a process when it has grown too long. The process appends, so it goes on at the start.
func (p *Provider) cutOutput(pl place) {
	info, err := os.Lstat(pl.output())
	if err != nil || info.Size() <= outputLimit {
		return
	}
	if err := os.Truncate(pl.output(), 0); err != nil {
		p.opts.Log.Error(err, "Cut output of process", "instance", pl.name)
	}
}
