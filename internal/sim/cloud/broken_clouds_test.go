// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"

	"github.com/proxy-operator/proxy-operator/providers"
)

// broken is a cloud, or the provider of one, with one bug that providers have had.
type broken struct {
	why     string
	profile Profile
	how     func(*Cloud, *bent)
	caught  string // the case that must fail
}

// bent is a provider some of whose methods are replaced.
type bent struct {
	providers.Provider
	create func(context.Context, providers.CreateRequest) (providers.Instance, error)
	get    func(context.Context, providers.Ref) (providers.Instance, error)
	remove func(context.Context, providers.Ref) error
	list   func(context.Context, providers.Selector) ([]providers.Instance, error)
	traits func() providers.Traits
}

func (b *bent) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	if b.create != nil {
		return b.create(ctx, req)
	}
	return b.Provider.Create(ctx, req)
}

func (b *bent) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	if b.get != nil {
		return b.get(ctx, ref)
	}
	return b.Provider.Get(ctx, ref)
}

func (b *bent) Delete(ctx context.Context, ref providers.Ref) error {
	if b.remove != nil {
		return b.remove(ctx, ref)
	}
	return b.Provider.Delete(ctx, ref)
}

func (b *bent) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	if b.list != nil {
		return b.list(ctx, sel)
	}
	return b.Provider.ListByTag(ctx, sel)
}

func (b *bent) Traits() providers.Traits {
	if b.traits != nil {
		return b.traits()
	}
	return b.Provider.Traits()
}

// tell changes every instance that Get and ListByTag return.
func (b *bent) tell(edit func(*providers.Instance)) {
	b.get = func(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
		i, err := b.Provider.Get(ctx, ref)
		if err == nil {
			edit(&i)
		}
		return i, err
	}
	b.list = func(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
		out, err := b.Provider.ListByTag(ctx, sel)
		for n := range out {
			edit(&out[n])
		}
		return out, err
	}
}

// reclass changes the class of an error.
func reclass(err error, from, to providers.ErrorClass) error {
	var e *providers.Error
	if !errors.As(err, &e) || e.Class != from {
		return err
	}
	changed := *e
	changed.Class = to
	return &changed
}

const (
	caseLife      = "an instance is created, seen, deleted and gone"
	caseTags      = "tags come back exactly as they were given"
	caseRepeat    = "a repeat of one key returns the instance of the first call"
	caseLost      = "a create whose answer is lost is Ambiguous, and looking first finds its instance"
	caseSteps     = "a create that is cancelled at any of its steps tells the truth"
	caseSelector  = "a selector picks by installation and owner"
	caseTwice     = "a delete can be repeated until the instance is gone"
	caseUntilGone = "an instance on its way out is listed as such until it is gone"
	caseDenied    = "a refusal of class Denied is told as such, and changes nothing"
	caseConflict  = "a name held by an instance that isn't ours is a conflict, and that instance is left alone"
	caseEnded     = "a call whose context has ended already claims nothing false"
	caseBroken    = "a list that breaks off is an error, not a part"
	caseLag       = "reads may miss a create within the lag, and are exact after it"
)

func brokenClouds() map[string]broken {
	all := map[string]broken{}
	for _, group := range []map[string]broken{
		brokenTags(), brokenCreates(), brokenKeys(), brokenReads(), brokenInstances(), brokenDeletes(), brokenDepartures(), brokenClasses(),
	} {
		for name, b := range group {
			all[name] = b
		}
	}
	return all
}

// untag takes the tags off what was made last under a name, as if the process had died before it set them.
func (c *Cloud) untag(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if m.name == name {
			m.tags = providers.Tags{}
		}
	}
}

// forget drops every create token.
func (c *Cloud) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = map[string]token{}
}

// pick lists what has such tags, as a provider without a filter of its own would.
func (c *Cloud) pick(match func(providers.Tags) bool) []providers.Instance {
	var out []providers.Instance
	for _, i := range c.All() {
		if match(i.Tags) {
			out = append(out, i)
		}
	}
	return out
}
