// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/providers"
)

// underway counts the creates that this process has sent and that haven't returned, by owner. It may be used from several
// goroutines: the collector of orphans asks while passes run.
type underway struct {
	mu    sync.Mutex
	byUID map[types.UID]int
}

// create sends a create and counts it until it has returned, be it by a panic.
func (u *underway) create(ctx context.Context, p providers.Provider, req providers.CreateRequest) (providers.Instance, error) {
	uid := types.UID(req.Tags.OwnerUID)
	u.add(uid, 1)
	defer u.add(uid, -1)
	return p.Create(ctx, req)
}

func (u *underway) add(uid types.UID, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byUID == nil {
		u.byUID = map[types.UID]int{}
	}
	if u.byUID[uid] += n; u.byUID[uid] == 0 {
		delete(u.byUID, uid)
	}
}

// Creating reports whether this process has a create under way for the Proxy with that UID: Collector.Busy. It may be
// called at any time, from any goroutine.
func (r *ProxyReconciler) Creating(uid string) bool {
	u := &r.underway
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byUID[types.UID(uid)] > 0
}
