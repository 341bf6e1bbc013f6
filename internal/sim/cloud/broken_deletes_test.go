// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"strings"

	"github.com/proxy-operator/proxy-operator/providers"
)

func brokenDeletes() map[string]broken {
	return map[string]broken{
		"a second delete is an error": {
			profile: GCE(), caught: caseTwice,
			how: func(c *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					for _, i := range c.All() {
						if i.Ref == ref && i.State == providers.StateDeleting {
							return &providers.Error{Class: providers.Permanent, Op: "delete instance", Code: "AlreadyDeleting"}
						}
					}
					return p.Provider.Delete(ctx, ref)
				}
			},
		},
		"a delete of what is gone is an error": {
			why: "cluster-api-provider-gcp#1647", profile: Pod(), caught: "a delete of what is gone is NotFound, for every process",
			how: func(_ *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					return reclass(p.Provider.Delete(ctx, ref), providers.NotFound, providers.Permanent)
				}
			},
		},
		"a delete of what is gone is always accepted": {
			profile: DO(), caught: caseTwice,
			how: func(_ *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					if err := p.Provider.Delete(ctx, ref); !providers.Is(err, providers.NotFound) {
						return err
					}
					return nil
				}
			},
		},
		"a delete says done while the instance is on its way out": {
			profile: GCE(), caught: caseLife,
			how: func(_ *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					if err := p.Provider.Delete(ctx, ref); err != nil {
						return err
					}
					return providers.Gone("delete instance", ref)
				}
			},
		},
		"a delete acts on a read that lags": {
			profile: DO(), caught: "an instance can be deleted while it is being provisioned",
			how: func(_ *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					if _, err := p.Provider.Get(ctx, ref); err != nil {
						return err
					}
					return p.Provider.Delete(ctx, ref)
				}
			},
		},
	}
}

func brokenDepartures() map[string]broken {
	return map[string]broken{
		"an instance on its way out is not listed": {
			profile: GCE(), caught: caseUntilGone,
			how: func(_ *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					out, err := p.Provider.ListByTag(ctx, sel)
					var staying []providers.Instance
					for _, i := range out {
						if i.State != providers.StateDeleting {
							staying = append(staying, i)
						}
					}
					return staying, err
				}
			},
		},
		"an instance on its way out is told as running": {
			profile: AWS(), caught: caseUntilGone,
			how: func(_ *Cloud, p *bent) {
				p.tell(func(i *providers.Instance) {
					if i.State == providers.StateDeleting {
						i.State = providers.StateRunning
					}
				})
			},
		},
		"a delete takes the owner's other instances too": {
			profile: DO(), caught: "a delete takes its own instance and no other",
			how: func(c *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					err := p.Provider.Delete(ctx, ref)
					for _, i := range c.All() {
						if i.Tags.OwnerUID == "5d1c0000-0000-4000-8000-000000000001" {
							_ = p.Provider.Delete(ctx, i.Ref)
						}
					}
					return err
				}
			},
		},
		"a delete leaves something that holds the name": {
			profile: GCE(), caught: "a name is free again when its instance is gone",
			how: func(c *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					err := p.Provider.Delete(ctx, ref)
					if providers.Is(err, providers.NotFound) {
						zone, name, _ := strings.Cut(ref.Path, "/")
						c.PlantForeign("model", zone, name)
					}
					return err
				}
			},
		},
		"a delete whose answer is lost is Transient": {
			profile: Pod(), caught: "a delete whose answer is lost is Ambiguous, and is repeated until it is done",
			how: func(_ *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					return reclass(p.Provider.Delete(ctx, ref), providers.Ambiguous, providers.Transient)
				}
			},
		},
	}
}

func brokenClasses() map[string]broken {
	return map[string]broken{
		"a denied Get is NotFound": {
			why: "some clouds hide what one may not see", profile: GCE(), caught: caseDenied,
			how: func(_ *Cloud, p *bent) {
				p.get = func(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
					i, err := p.Provider.Get(ctx, ref)
					return i, reclass(err, providers.Denied, providers.NotFound)
				}
			},
		},
		"a denied Delete is NotFound": {
			profile: AWS(), caught: caseDenied,
			how: func(_ *Cloud, p *bent) {
				p.remove = func(ctx context.Context, ref providers.Ref) error {
					return reclass(p.Provider.Delete(ctx, ref), providers.Denied, providers.NotFound)
				}
			},
		},
		"a full account is Permanent": {
			profile: AWS(), caught: "a refusal of class QuotaExceeded is told as such, and changes nothing",
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					return i, reclass(err, providers.QuotaExceeded, providers.Permanent)
				}
			},
		},
		"a full zone is a full account": {
			profile: GCE(), caught: "a refusal of class Capacity is told as such, and changes nothing",
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					return i, reclass(err, providers.Capacity, providers.QuotaExceeded)
				}
			},
		},
		"Retry-After is dropped": {
			profile: DO(), caught: "a refusal of class Throttled is told as such, and changes nothing",
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					var e *providers.Error
					if errors.As(err, &e) {
						e.RetryAfter = 0
					}
					return i, err
				}
			},
		},
		"errors carry no class": {
			profile: Pod(), caught: caseDenied,
			how: func(_ *Cloud, p *bent) {
				p.get = func(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
					i, err := p.Provider.Get(ctx, ref)
					if err != nil && !providers.Is(err, providers.NotFound) {
						err = errors.New(err.Error())
					}
					return i, err
				}
			},
		},
		"a Get whose context ended is NotFound": {
			profile: Pod(), caught: caseEnded,
			how: func(_ *Cloud, p *bent) {
				p.get = func(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
					i, err := p.Provider.Get(ctx, ref)
					return i, reclass(err, providers.Transient, providers.NotFound)
				}
			},
		},
		"a list whose context ended is empty": {
			profile: Pod(), caught: caseEnded,
			how: func(_ *Cloud, p *bent) {
				p.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
					out, err := p.Provider.ListByTag(ctx, sel)
					if ctx.Err() != nil {
						err = nil
					}
					return out, err
				}
			},
		},
		"a Ref of another account is NotFound": {
			why: "a wrong provider was asked", profile: GCE(), caught: "a Ref of another account is refused, not NotFound",
			how: func(_ *Cloud, p *bent) {
				p.get = func(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
					i, err := p.Provider.Get(ctx, ref)
					return i, reclass(err, providers.Permanent, providers.NotFound)
				}
			},
		},
		"an unknown zone is NotFound": {
			profile: AWS(), caught: "a zone that the account hasn't is refused for good",
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					return i, reclass(err, providers.Permanent, providers.NotFound)
				}
			},
		},
	}
}
