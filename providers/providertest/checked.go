// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/proxy-operator/proxy-operator/providers"
)

// checked passes every call on, and checks what must hold for every answer in every case.
type checked struct {
	t        testing.TB
	provider providers.Provider
	account  string
	zones    []string
	why      string
}

// Create implements providers.Provider.
func (c *checked) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	c.t.Helper()
	i, err := c.provider.Create(ctx, req)
	if err != nil {
		c.failure("Create", err)
		assert.False(c.t, providers.Is(err, providers.NotFound), "Create answers NotFound, which says nothing: %v", err)
		assert.Zero(c.t, i, "Create returns an error and an instance")
		return i, err
	}
	c.place("Create", i)
	assert.Equal(c.t, req.Name, i.Name, "Create must use the name of the key")
	return i, nil
}

// Get implements providers.Provider.
func (c *checked) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	c.t.Helper()
	i, err := c.provider.Get(ctx, ref)
	if err != nil {
		c.failure("Get", err)
		assert.Zero(c.t, i, "Get returns an error and an instance")
		return i, err
	}
	c.complete("Get", i)
	assert.Equal(c.t, ref, i.Ref, "Get answers with another instance")
	return i, nil
}

// Delete implements providers.Provider.
func (c *checked) Delete(ctx context.Context, ref providers.Ref) error {
	c.t.Helper()
	err := c.provider.Delete(ctx, ref)
	if err != nil {
		c.failure("Delete", err)
	}
	return err
}

// ListByTag implements providers.Provider.
func (c *checked) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	c.t.Helper()
	list, err := c.provider.ListByTag(ctx, sel)
	if err != nil {
		c.failure("ListByTag", err)
		assert.False(c.t, providers.Is(err, providers.NotFound), "ListByTag answers NotFound, which reads as empty: %v", err)
		assert.Empty(c.t, list, "ListByTag returns an error and a part of the list")
		return list, err
	}
	seen := map[providers.Ref]bool{}
	for _, i := range list {
		c.complete("ListByTag", i)
		assert.True(c.t, sel.Matches(i.Tags), "ListByTag(%+v) returns what doesn't match: %+v", sel, i)
		assert.False(c.t, seen[i.Ref], "ListByTag returns %s twice", i.Ref)
		seen[i.Ref] = true
	}
	return list, nil
}

// Traits implements providers.Provider.
func (c *checked) Traits() providers.Traits { return c.provider.Traits() }

// failure checks an error: its class, and that it keeps the secret.
func (c *checked) failure(call string, err error) {
	c.t.Helper()
	var e *providers.Error
	if !assert.ErrorAs(c.t, err, &e, "%s must return *providers.Error: %v", call, err) {
		return
	}
	assert.Contains(c.t, providers.Classes(), e.Class, "%s: %v", call, err)
	assert.NotEmpty(c.t, e.Op, "%s must say what it did: %v", call, err)
	assert.GreaterOrEqual(c.t, int64(e.RetryAfter), int64(0), "%s: %v", call, err)
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		assert.NotContains(c.t, cause.Error(), secret, "%s tells the password", call)
	}
}

// place checks what every instance has from its first moment: where it is.
func (c *checked) place(call string, i providers.Instance) {
	c.t.Helper()
	back, err := providers.ParseRef(i.Ref.String())
	assert.NoError(c.t, err, "%s", call)
	assert.Equal(c.t, i.Ref, back, "%s: the Ref must survive being written down", call)
	assert.False(c.t, i.Ref.IsZero(), "%s: an instance without a Ref can't be deleted", call)
	assert.Equal(c.t, c.account, i.Ref.Account, "%s: the Ref must name the account", call)
	assert.NotEmpty(c.t, i.Name, "%s", call)
	assert.Contains(c.t, states(), i.State, "%s", call)
	assert.NotContains(c.t, fmt.Sprintf("%+v", i), secret, "%s tells the password", call)
}

// complete checks an instance as Get and ListByTag return it.
func (c *checked) complete(call string, i providers.Instance) {
	c.t.Helper()
	c.place(call, i)
	assert.True(c.t, i.Tags.Complete(), "%s: tags are missing: %+v", call, i.Tags)
	assert.False(c.t, i.CreatedAt.IsZero(), "%s: without CreatedAt nobody knows which twin is older", call)
	if len(c.zones) == 0 {
		assert.Empty(c.t, i.Zone, "%s: the account has no zones", call)
	} else {
		assert.True(c.t, slices.Contains(c.zones, i.Zone), "%s: zone %q is not one of %q", call, i.Zone, c.zones)
	}
	if i.IP != "" {
		_, err := netip.ParseAddr(i.IP)
		assert.NoError(c.t, err, "%s", call)
	}
	if i.State == providers.StateRunning {
		assert.NotEmpty(c.t, i.IP, "%s: an instance that runs has an address", call)
	}
	assert.True(c.t, i.Port >= 0 && i.Port <= 65535, "%s: port %d", call, i.Port)
}

func states() []providers.InstanceState {
	return []providers.InstanceState{
		providers.StateProvisioning, providers.StateRunning, providers.StateStopped, providers.StateTerminated, providers.StateDeleting,
	}
}
