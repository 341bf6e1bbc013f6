// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// account is one account's side of the cloud.
type account struct {
	cloud *Cloud
	name  string
}

var (
	_ providers.Provider = account{}
	_ providers.Checker  = account{}
)

// Check implements providers.Checker.
func (a account) Check(req providers.CreateRequest) error { return a.cloud.checkZone(req) }

// Create implements providers.Provider.
func (a account) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	k := Call{Op: OpCreate, Account: a.name, Request: req}
	return through(ctx, a.cloud, k, func(at time.Time, f Fault) (providers.Instance, error) {
		return a.cloud.create(at, a.name, req, f)
	})
}

// Get implements providers.Provider.
func (a account) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	if err := a.owns(OpGet, ref); err != nil {
		return providers.Instance{}, err
	}
	k := Call{Op: OpGet, Account: a.name, Ref: ref}
	return through(ctx, a.cloud, k, func(at time.Time, f Fault) (providers.Instance, error) {
		return a.cloud.get(at, a.from(f), ref)
	})
}

// Delete implements providers.Provider.
func (a account) Delete(ctx context.Context, ref providers.Ref) error {
	if err := a.owns(OpDelete, ref); err != nil {
		return err
	}
	k := Call{Op: OpDelete, Account: a.name, Ref: ref}
	_, err := through(ctx, a.cloud, k, func(at time.Time, _ Fault) (providers.Instance, error) {
		return providers.Instance{}, a.cloud.remove(at, a.name, ref)
	})
	return err
}

// ListByTag implements providers.Provider.
func (a account) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	k := Call{Op: OpList, Account: a.name, Selector: sel}
	return through(ctx, a.cloud, k, func(at time.Time, f Fault) ([]providers.Instance, error) {
		return a.cloud.list(at, a.from(f), sel, f)
	})
}

// Traits implements providers.Provider.
func (a account) Traits() providers.Traits { return a.cloud.profile.Traits }

// owns refuses a Ref of another account: the caller has taken the wrong provider, and NotFound would tell it that the
// machine is gone.
func (a account) owns(op Op, ref providers.Ref) error {
	if ref.Account == a.name {
		return nil
	}
	return &providers.Error{
		Class: providers.Permanent, Op: string(op), Code: providers.CodeWrongAccount,
		Err: fmt.Errorf("%s is not of account %s", ref, a.name),
	}
}

// from is the account that answers a read.
func (a account) from(f Fault) string {
	if f.Account != "" {
		return f.Account
	}
	return a.name
}

// through takes one call through the door, lets it take effect and answers it.
func through[T any](ctx context.Context, c *Cloud, k Call, do func(time.Time, Fault) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, unsent(k.Op, ctx.Err())
	}
	k, door := c.enter(k)
	var f Fault
	if door != nil {
		f = door(k)
	}
	out, err := effect(ctx, c, k, f, do)
	ref := providers.Ref{}
	if i, ok := any(out).(providers.Instance); ok {
		ref = i.Ref
	}
	c.leave(k.N, ref, err)
	if err != nil {
		return none, err
	}
	return out, nil
}

func effect[T any](ctx context.Context, c *Cloud, k Call, f Fault, do func(time.Time, Fault) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, unsent(k.Op, ctx.Err())
	}
	out, late, err := act(c, k, f, do)
	if f.After != nil {
		f.After()
	}
	switch {
	case ctx.Err() != nil:
		return none, lost(k.Op, ctx.Err())
	case err != nil:
		return none, err
	case f.LoseAnswer, late:
		return none, lost(k.Op, os.ErrDeadlineExceeded)
	}
	return out, nil
}

// act does the call now, later or not at all.
func act[T any](c *Cloud, k Call, f Fault, do func(time.Time, Fault) (T, error)) (out T, late bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	class := f.Class
	if class == "" {
		class = c.down
	}
	if class != "" {
		return out, false, c.refusal(k.Op, class, f.RetryAfter)
	}
	if f.Late <= 0 || !k.Op.mutates() {
		out, err = do(now, f)
		return out, false, err
	}
	l := landing{at: now.Add(f.Late), do: func(at time.Time) { _, _ = do(at, f) }}
	if k.Op == OpCreate {
		l.req = &k.Request
	}
	c.later(l)
	return out, true, nil
}
