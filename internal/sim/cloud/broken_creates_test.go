// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/proxy-operator/proxy-operator/providers"
)

func brokenTags() map[string]broken {
	return map[string]broken{
		"a tag is lost": {
			profile: GCE(), caught: caseTags,
			how: func(_ *Cloud, p *bent) { p.tell(func(i *providers.Instance) { i.Tags.SpecHash = "" }) },
		},
		"tags are cut at 60 characters": {
			why: "a cloud's limit for labels", profile: AWS(), caught: caseTags,
			how: func(_ *Cloud, p *bent) {
				p.tell(func(i *providers.Instance) { i.Tags.Namespace = i.Tags.Namespace[:min(60, len(i.Tags.Namespace))] })
			},
		},
		"dots in tags become hyphens": {
			why: "a cloud's character set", profile: GCE(), caught: caseTags,
			how: func(_ *Cloud, p *bent) {
				p.tell(func(i *providers.Instance) { i.Tags.Name = strings.ReplaceAll(i.Tags.Name, ".", "-") })
			},
		},
		"an incarnation goes through a float": {
			why: "JSON numbers", profile: Pod(), caught: caseTags,
			how: func(_ *Cloud, p *bent) {
				p.tell(func(i *providers.Instance) { i.Tags.Incarnation = int64(float64(i.Tags.Incarnation)) })
			},
		},
		"tags are set by a second call": {
			why: "scrapoxy/scrapoxy#105", profile: DO(), caught: caseSteps,
			how: func(c *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					if providers.Is(err, providers.Ambiguous) {
						c.untag(req.Name)
					}
					return i, err
				}
			},
		},
		"the password is in an error": {
			profile: Pod(), caught: caseDenied,
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					if err != nil {
						err = &providers.Error{Class: providers.MutationClass(err), Op: "create", Err: fmt.Errorf("%+v: %w", req, err)}
					}
					return i, err
				}
			},
		},
	}
}

func brokenCreates() map[string]broken {
	return map[string]broken{
		"a repeat makes a twin": {
			why: "names are said to be unique and are not", profile: DO(), caught: caseRepeat,
			how: func(_ *Cloud, p *bent) {
				p.traits = func() providers.Traits { t := DO().Traits; t.UniqueNames = true; return t }
			},
		},
		"a repeat by another process makes a twin": {
			why: "the keys that were seen are kept in memory", profile: DO(),
			caught: "a repeat by another process returns the instance of the first call",
			how: func(_ *Cloud, p *bent) {
				p.traits = func() providers.Traits { t := DO().Traits; t.UniqueNames = true; return t }
				var mu sync.Mutex
				made := map[string]providers.Instance{}
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					mu.Lock()
					defer mu.Unlock()
					if i, ok := made[req.Name]; ok {
						return i, nil
					}
					i, err := p.Provider.Create(ctx, req)
					if err == nil {
						made[req.Name] = i
					}
					return i, err
				}
			},
		},
		"Create tries again inside": {
			why: "a lost answer is no failure", profile: DO(), caught: caseLost,
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					if providers.Is(err, providers.Ambiguous) {
						return p.Provider.Create(ctx, req)
					}
					return i, err
				}
			},
		},
		"a name conflict is taken for a repeat": {
			why: "409 = adopt", profile: GCE(), caught: caseConflict,
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					if providers.Is(err, providers.Permanent) && req.Key.Zone != "no-such-zone" {
						return p.Get(ctx, providers.Ref{Account: req.Key.Account, Path: req.Key.Zone + "/" + req.Name})
					}
					return i, err
				}
			},
		},
		"a name conflict is cleared away": {
			profile: Pod(), caught: caseConflict,
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					if providers.Is(err, providers.Permanent) {
						_ = p.Delete(ctx, providers.Ref{Account: req.Key.Account, Path: req.Name})
					}
					return i, err
				}
			},
		},
		"a cancelled create is Transient though made": {
			profile: AWS(), caught: caseSteps,
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					if ctx.Err() != nil {
						err = reclass(err, providers.Ambiguous, providers.Transient)
					}
					return i, err
				}
			},
		},
		"a create whose answer is lost is Transient": {
			why: "cluster-api-provider-aws#5794", profile: GCE(), caught: caseLost,
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					return i, reclass(err, providers.Ambiguous, providers.Transient)
				}
			},
		},
		"a create goes on in the background after its context ended": {
			profile: Pod(), caught: caseEnded,
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(context.WithoutCancel(ctx), req)
					if err == nil && ctx.Err() != nil {
						return providers.Instance{}, unsent(OpCreate, ctx.Err())
					}
					return i, err
				}
			},
		},
	}
}

func brokenKeys() map[string]broken {
	return map[string]broken{
		"a create token is forgotten with its instance": {
			profile: AWS(), caught: "a create token outlives its instance",
			how: func(c *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					if len(c.All()) == 0 {
						c.forget()
					}
					return p.Provider.Create(ctx, req)
				}
			},
		},
		"a late create makes a twin": {
			why: "the token is known only once a call has been answered", profile: AWS(),
			caught: "a create that takes effect after its caller gave up makes no twin",
			how: func(c *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					i, err := p.Provider.Create(ctx, req)
					if len(c.InFlight()) > 0 && err == nil {
						c.forget()
					}
					return i, err
				}
			},
		},
		"the incarnation is not in the key": {
			profile: Pod(), caught: "other incarnations, owners, installations and zones are other instances",
			how: func(_ *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					req.Key.Incarnation, req.Tags.Incarnation = 1, 1
					req.Name = req.Key.Name()
					return p.Provider.Create(ctx, req)
				}
			},
		},
		"the zone is not looked at": {
			profile: GCE(), caught: "other incarnations, owners, installations and zones are other instances",
			how: func(c *Cloud, p *bent) {
				p.create = func(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
					req.Key.Zone = c.profile.Zones[0]
					req.Name = req.Key.Name()
					return p.Provider.Create(ctx, req)
				}
			},
		},
	}
}
