// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// listTimeout bounds a list of all pages of an account.
const listTimeout = 2 * time.Minute

// finding is an instance and what the collector takes it for.
type finding struct {
	providers.Instance
	state orphanState
}

// find lists the account and judges every instance, in the order of their Refs. The cloud comes first: a machine that is
// made later isn't in its list, and whoever owned one of the list at the time is still found, or has gone since.
func (c *Collector) find(ctx context.Context, acc providers.Account, now time.Time) ([]finding, error) {
	var before map[types.UID]bool
	if c.off(GuardCloudFirst) {
		var err error
		if before, err = c.proxies(ctx, c.Live); err != nil {
			return nil, err
		}
	}
	list, err := c.list(ctx, acc)
	if err != nil {
		return nil, err
	}
	known := before
	if !c.off(GuardCloudFirst) {
		if known, err = c.proxies(ctx, c.Cache); err != nil {
			return nil, err
		}
	}
	mem, lag := c.memory[acc.Name], acc.Provider.Traits().Lag
	found := make([]finding, 0, len(list))
	for _, i := range list {
		s := suspect{
			Instance: i, Installation: c.Installation, Watched: c.Watched, Now: now, FirstSeen: mem.firstSeen(i), Lag: lag, Unguarded: c.Unguarded,
		}
		if !s.foreign() {
			if s.Owned, err = c.owned(ctx, known, i.Tags); err != nil {
				return nil, err
			}
		}
		found = append(found, finding{i, s.state()})
	}
	return found, nil
}

func (c *Collector) list(ctx context.Context, acc providers.Account) ([]providers.Instance, error) {
	ctx, cancel := c.within(ctx, listTimeout)
	defer cancel()
	list, err := acc.Provider.ListByTag(ctx, providers.Selector{Installation: c.Installation})
	if err != nil && !c.off(GuardFailedPage) {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b providers.Instance) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	// Pages that shift while they are read show an instance twice.
	return slices.CompactFunc(list, func(a, b providers.Instance) bool { return a.Ref == b.Ref }), nil
}

// proxies returns the UIDs of all Proxies that a reader knows.
func (c *Collector) proxies(ctx context.Context, from client.Reader) (map[types.UID]bool, error) {
	ctx, cancel := c.within(ctx, callTimeout)
	defer cancel()
	var list v1alpha1.ProxyList
	if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, c.apiError(fmt.Errorf("list proxies: %w", err))
	}
	out := make(map[types.UID]bool, len(list.Items))
	for n := range list.Items {
		out[list.Items[n].UID] = true
	}
	return out, nil
}

// owned reports whether the Proxy of the tags exists, or a create for it is under way. Whom the cache knows exists, or has
// just gone: then the next sweep sees it. That it doesn't know one proves nothing, so the API server is asked.
func (c *Collector) owned(ctx context.Context, known map[types.UID]bool, t providers.Tags) (bool, error) {
	if known[types.UID(t.OwnerUID)] || (c.Busy != nil && c.Busy(t.OwnerUID)) {
		return true, nil
	}
	if c.off(GuardCloudFirst) || c.off(GuardLiveOwner) {
		return false, nil
	}
	ctx, cancel := c.within(ctx, callTimeout)
	defer cancel()
	var p v1alpha1.Proxy
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Name}, &p)
	switch {
	case err == nil:
		return string(p.UID) == t.OwnerUID, nil
	case absent(err), c.off(GuardOwnerError):
		return false, nil
	default:
		return false, c.apiError(fmt.Errorf("get proxy %s/%s: %w", t.Namespace, t.Name, err))
	}
}

// absent reports whether the API server itself said that there is no such object. A 404 of something between, or of an
// API server that doesn't serve the type, says nothing about an object; client-go marks it.
func absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// apiError notes that the API server isn't well: for a minute nothing is swept.
func (c *Collector) apiError(err error) error {
	c.apiFailed = c.Clock.Now()
	return err
}
