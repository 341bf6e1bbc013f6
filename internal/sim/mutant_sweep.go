// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"time"

	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/providers"
)

// ofAccounts leave out what spares an account.
func ofAccounts() []Mutant {
	budget := Mutant{Name: "no guards", unlimited: true}
	reopens := Mutant{Name: "a gate never opens again", guarded: func(p providers.Provider) providers.Provider { return &latched{Provider: p} }}
	return []Mutant{
		budget.on("do,objects=20"),
		reopens.on("gce,quota@5"),
		provided("Retry-After is overheard", func(p providers.Provider) providers.Provider { return deaf{p} }).on("gce,throttled@3"),
		provided("no room is a passing failure", func(p providers.Provider) providers.Provider {
			return reclassed{p, providers.QuotaExceeded, providers.Transient}
		}).on("gce,no-room@5:600"),
		without("absence is believed from an old list", controllers.GuardFreshList).on("aws,edit@37:3129,revert@40,old-leader@45:50"),
	}
}

// ofSweeps leave out precautions of the collector of orphans. Where two or three stand in for each other, the mutant is
// without all of them; which one it is about is the first.
func ofSweeps() []Mutant {
	age, twice := controllers.GuardOrphanAge, controllers.GuardTwoSightings
	unfiltered := without("another installation's machines are orphans", controllers.GuardOrphanInstallation)
	unfiltered.provider = func(p providers.Provider) providers.Provider { return unfilteredLists{p} }
	return []Mutant{
		without("one sighting is enough", twice).on("pod,poke@30,poke@45,proxies-lost@53:120"),
		without("a young machine is an orphan", age).on("pod,poke@30,proxies-lost@25:420"),
		without("the owners are listed before the cloud", controllers.GuardCloudFirst, age, twice).on("pod,copy@28,overtaken@27:20"),
		without("the cache knows who is gone", controllers.GuardLiveOwner, age, twice).on("pod,copy@44,two-leaders@20:400,lag@43:200"),
		without("an error is an owner's absence", controllers.GuardOwnerError, age, twice).on("pod,copy@44,two-leaders@20:400,lag@43:200,api-down@60:10"),
		without("a list that failed is an empty account", controllers.GuardFailedPage).on("gce,orphans@45:3,poke@78,poke@97,confirm@115,page-fails@99"),
		unfiltered.on("gce"),
		without("a neighbour's namespace is ours", controllers.GuardOrphanNamespace).on("gce"),
		without("many orphans at once are deleted", controllers.GuardSweepCap).on("gce,orphans@45:30", "gce,objects=20,poke@400,poke@800,proxies-lost@500:1200"),
		provided("what is labelled like ours is ours", func(p providers.Provider) providers.Provider { return believing{p} }).on("gce"),
	}
}

// latched holds creates back for ever once there was no room.
type latched struct {
	providers.Provider
	full bool
}

func (l *latched) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	i, err := l.Provider.Create(ctx, req)
	l.full = l.full || (providers.Is(err, providers.QuotaExceeded) && !providers.IsHeld(err))
	return i, err
}

func (l *latched) Admit(req providers.CreateRequest) error {
	if l.full {
		return &providers.Error{Class: providers.QuotaExceeded, Op: "create instance", Code: providers.CodeGateClosed, RetryAfter: time.Minute, Held: true}
	}
	if a, ok := l.Provider.(providers.Admitter); ok {
		return a.Admit(req)
	}
	return nil
}

func (l *latched) Check(req providers.CreateRequest) error { return checked(l.Provider, req) }

// deaf doesn't hear how long to wait.
type deaf struct{ providers.Provider }

func unsaid(err error) error {
	if providers.Is(err, providers.Throttled) {
		return &providers.Error{Class: providers.Throttled, Op: "call", Err: err}
	}
	return err
}

func (d deaf) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	i, err := d.Provider.Create(ctx, req)
	return i, unsaid(err)
}

func (d deaf) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	i, err := d.Provider.Get(ctx, ref)
	return i, unsaid(err)
}

func (d deaf) Delete(ctx context.Context, ref providers.Ref) error {
	return unsaid(d.Provider.Delete(ctx, ref))
}

func (d deaf) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	list, err := d.Provider.ListByTag(ctx, sel)
	return list, unsaid(err)
}

func (d deaf) Check(req providers.CreateRequest) error { return checked(d.Provider, req) }

// unfilteredLists show what other installations have too.
type unfilteredLists struct{ providers.Provider }

func (u unfilteredLists) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	list, err := u.Provider.ListByTag(ctx, sel)
	if err != nil {
		return nil, err
	}
	door, ok := u.Provider.(cloudDoor)
	if !ok {
		return list, nil
	}
	others, err := door.Provider.ListByTag(ctx, providers.Selector{Installation: theirs}) // no call of its own
	return append(list, others...), err
}

func (u unfilteredLists) Check(req providers.CreateRequest) error { return checked(u.Provider, req) }

// believing gives every machine the name that its labels ask for.
type believing struct{ providers.Provider }

func (b believing) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	list, err := b.Provider.ListByTag(ctx, sel)
	for n, i := range list {
		k := providers.Key{InstallationID: i.Tags.Installation, ProxyUID: i.Tags.OwnerUID, Incarnation: i.Tags.Incarnation, Account: i.Ref.Account, Zone: i.Zone}
		list[n].Name = k.Name()
	}
	return list, err
}

func (b believing) Check(req providers.CreateRequest) error { return checked(b.Provider, req) }
