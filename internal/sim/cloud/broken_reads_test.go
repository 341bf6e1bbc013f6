// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"sync"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

func brokenReads() map[string]broken {
	return map[string]broken{
		"a failed list reads as empty": {
			why: "kubernetes-sigs/external-dns#2858", profile: GCE(), caught: caseBroken,
			how: func(_ *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					out, err := p.Provider.ListByTag(ctx, sel)
					if err != nil {
						err = nil
					}
					return out, err
				}
			},
		},
		"a list that breaks off returns its part": {
			profile: DO(), caught: caseBroken,
			how: func(c *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					out, err := p.Provider.ListByTag(ctx, sel)
					if err != nil {
						out, err = p.Provider.ListByTag(ctx, sel)
						out = out[:min(len(out), c.profile.PageSize)]
					}
					return out, err
				}
			},
		},
		"a list that breaks off returns its part and the error": {
			profile: AWS(), caught: caseBroken,
			how: func(_ *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					out, err := p.Provider.ListByTag(ctx, sel)
					if err != nil {
						out, _ = p.Provider.ListByTag(ctx, sel)
					}
					return out, err
				}
			},
		},
		"a list is its first page": {
			why: "machine-controller-manager-provider-azure#207", profile: GCE(), caught: "a list has the instances of every page and zone",
			how: func(c *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					out, err := p.Provider.ListByTag(ctx, sel)
					return out[:min(len(out), c.profile.PageSize)], err
				}
			},
		},
		"a list is of one zone": {
			profile: AWS(), caught: "a list has the instances of every page and zone",
			how: func(c *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					out, err := p.Provider.ListByTag(ctx, sel)
					var here []providers.Instance
					for _, i := range out {
						if i.Zone == c.profile.Zones[0] {
							here = append(here, i)
						}
					}
					return here, err
				}
			},
		},
		"a list ignores the installation": {
			why: "gardener/machine-controller-manager#718", profile: Pod(), caught: caseSelector,
			how: func(c *Cloud, p *bent) {
				p.list = func(_ context.Context, sel providers.Selector) ([]providers.Instance, error) {
					return c.pick(func(t providers.Tags) bool { return sel.OwnerUID == "" || t.OwnerUID == sel.OwnerUID }), nil
				}
			},
		},
		"a list has other accounts' instances too": {
			profile: Pod(), caught: "accounts don't see each other's instances",
			how: func(c *Cloud, p *bent) {
				p.list = func(_ context.Context, sel providers.Selector) ([]providers.Instance, error) {
					out := c.pick(sel.Matches)
					for n := range out {
						out[n].Ref.Account = "model"
					}
					return out, nil
				}
			},
		},
		"a list ignores the owner": {
			profile: Pod(), caught: caseSelector,
			how: func(_ *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					sel.OwnerUID = ""
					return p.Provider.ListByTag(ctx, sel)
				}
			},
		},
		"a selector without an installation picks all": {
			profile: Pod(), caught: "a selector without an installation picks nothing",
			how: func(c *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					if sel.Installation == "" {
						return c.pick(func(t providers.Tags) bool { return t.Complete() }), nil
					}
					return p.Provider.ListByTag(ctx, sel)
				}
			},
		},
	}
}

func brokenInstances() map[string]broken {
	return map[string]broken{
		"the lag is declared too short": {
			profile: DO(), caught: caseLag,
			how: func(_ *Cloud, p *bent) {
				p.traits = func() providers.Traits { t := DO().Traits; t.Lag = 3 * time.Second; return t }
			},
		},
		"Traits change with the time": {
			profile: Pod(), caught: "Traits are constant",
			how: func(c *Cloud, p *bent) {
				p.traits = func() providers.Traits {
					t := Pod().Traits
					t.CallDeadline += c.clock.Since(noon)
					return t
				}
			},
		},
		"CreatedAt is the time of the read": {
			profile: Pod(), caught: "CreatedAt stays as it is, and orders instances by age",
			how: func(c *Cloud, p *bent) { p.tell(func(i *providers.Instance) { i.CreatedAt = c.clock.Now() }) },
		},
		"CreatedAt is missing": {
			profile: Pod(), caught: caseLife,
			how: func(_ *Cloud, p *bent) { p.tell(func(i *providers.Instance) { i.CreatedAt = time.Time{} }) },
		},
		"the zone is missing": {
			profile: GCE(), caught: caseLife,
			how: func(_ *Cloud, p *bent) { p.tell(func(i *providers.Instance) { i.Zone = "" }) },
		},
		"the address is missing": {
			profile: AWS(), caught: caseLife,
			how: func(_ *Cloud, p *bent) { p.tell(func(i *providers.Instance) { i.IP = "" }) },
		},
		"a Ref has a name and no account": {
			why: "inlets/inlets-operator#50", profile: GCE(), caught: caseLife,
			how: func(_ *Cloud, p *bent) { p.tell(func(i *providers.Instance) { i.Ref.Account = "" }) },
		},
		"a stopped instance is told as running": {
			profile: AWS(), caught: "an instance that stopped by itself is told as stopped",
			how: func(_ *Cloud, p *bent) {
				p.tell(func(i *providers.Instance) {
					if i.State == providers.StateStopped {
						i.State = providers.StateRunning
					}
				})
			},
		},
		"a vanished instance is seen for ever": {
			why: "aws/karpenter-provider-aws#9479", profile: Pod(), caught: "an instance that vanished is NotFound and off the list",
			how: func(_ *Cloud, p *bent) {
				var mu sync.Mutex
				kept := map[providers.Ref]providers.Instance{}
				p.get = func(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
					mu.Lock()
					defer mu.Unlock()
					if i, ok := kept[ref]; ok {
						return i, nil
					}
					i, err := p.Provider.Get(ctx, ref)
					if i.State == providers.StateRunning {
						kept[ref] = i
					}
					return i, err
				}
			},
		},
	}
}
