// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Each precaution in a scene where it is all that stands between the collector and a machine. Without it the machine
// goes: so each of them can be seen to work, and internal/sim can leave them out.
func TestEveryPrecautionOfTheCollectorIsNeeded(t *testing.T) {
	cases := map[Guard]struct {
		why   string
		scene func(*broom) []providers.Ref // returns machines of which none may go
	}{
		GuardCloudFirst: {"a Proxy and its machine made while the sweep runs", func(b *broom) []providers.Ref {
			return b.madeDuringTheList()
		}},
		GuardLiveOwner: {"a cache that has lost a Proxy", func(b *broom) []providers.Ref {
			ref := b.owned()
			b.knowsNobody()
			b.swept(2)
			return ref
		}},
		GuardOwnerError: {"gardener/machine-controller-manager#657: the API server is down", func(b *broom) []providers.Ref {
			ref := b.owned()
			b.knowsNobody()
			b.c.Live = reader{Reader: b.api, get: func(o client.Object) error {
				if _, ok := o.(*v1alpha1.Proxy); ok {
					return errors.New("connection refused")
				}
				return nil
			}}
			for range 3 {
				_ = b.sweep()
			}
			return ref
		}},
		GuardOrphanInstallation: {"gardener/machine-controller-manager#718: a neighbour in the same account", func(b *broom) []providers.Ref {
			ref := b.plant("neighbour", b.ns, "theirs")
			b.through(listsAll{b.c.Providers["cloud"].Provider, b})
			b.swept(3)
			return []providers.Ref{ref}
		}},
		GuardOrphanNamespace: {"another operator of this cluster watches the namespace", func(b *broom) []providers.Ref {
			ref := b.plant("inst", "neighbours", "theirs")
			b.c.Watched = []string{b.ns}
			b.swept(3)
			return []providers.Ref{ref}
		}},
		GuardOrphanAge: {"gardener/machine-controller-manager#583: a create that isn't recorded yet", func(b *broom) []providers.Ref {
			ref := b.plantYoung("inst", b.ns, "new")
			b.later(time.Second)
			require.NoError(b.t, b.c.Sweep(b.t.Context(), "cloud"))
			b.swept(1)
			return []providers.Ref{ref}
		}},
		GuardTwoSightings: {"one look may be wrong", func(b *broom) []providers.Ref {
			ref := b.plant("inst", b.ns, "gone")
			b.swept(1)
			return []providers.Ref{ref}
		}},
		GuardSweepCap: {"the Proxies were lost, not the machines", func(b *broom) []providers.Ref {
			refs := b.plantMany(3)
			b.swept(3)
			return refs
		}},
	}
	for guard, c := range cases {
		t.Run(string(guard), func(t *testing.T) {
			with := newBroom(t, cloud.Pod())
			refs := c.scene(with)
			require.Equal(t, len(refs), with.left(refs...), c.why)

			without := newBroom(t, cloud.Pod())
			without.c.Unguarded = map[Guard]bool{guard: true}
			if guard == GuardCloudFirst { // a machine that is made during a sweep is young, and seen for the first time
				without.c.Unguarded[GuardOrphanAge], without.c.Unguarded[GuardTwoSightings] = true, true
			}
			refs = c.scene(without)
			require.Less(t, without.left(refs...), len(refs), "this scene doesn't need the precaution")
		})
	}
}

// owned makes a Proxy with a machine that is old enough.
func (b *broom) owned() []providers.Ref {
	b.t.Helper()
	b.create("a")
	ref, err := providers.ParseRef(b.ready("a").Status.ProviderID)
	require.NoError(b.t, err)
	b.later(time.Hour)
	return []providers.Ref{ref}
}

// madeDuringTheList makes a Proxy and its machine just before the collector's list of the cloud is answered.
func (b *broom) madeDuringTheList() []providers.Ref {
	var refs []providers.Ref
	making := false
	b.cloud.SetDoor(func(k cloud.Call) cloud.Fault {
		if k.Op == cloud.OpList && !making {
			making = true
			refs = b.owned()
		}
		return cloud.Fault{}
	})
	b.swept(2)
	b.cloud.SetDoor(nil)
	require.NotEmpty(b.t, refs)
	return refs
}

func TestAFailedPageStopsTheSweepAndForgetsNothing(t *testing.T) {
	scene := func(b *broom) *broom {
		b.plant("inst", b.ns, "gone")
		b.swept(1)
		for range b.cloud.Profile().PageSize {
			b.plant("other", b.ns, "theirs")
		}
		b.cloud.SetDoor(func(cloud.Call) cloud.Fault { return cloud.Fault{FailPage: 1} })
		_ = b.sweep()
		b.cloud.SetDoor(nil)
		return b
	}
	b := scene(newBroom(t, cloud.Pod()))
	require.Equal(t, 1, b.results(sweepFailed))
	require.Zero(t, b.count(cloud.OpDelete))
	require.Equal(t, 1, b.gauge(orphanSighted), "what was known is still so")
	b.swept(1)
	require.Equal(t, 1, b.count(cloud.OpDelete), "the sighting of before counts")

	b = newBroom(t, cloud.Pod())
	b.c.Unguarded = map[Guard]bool{GuardFailedPage: true}
	scene(b).swept(1)
	require.Zero(t, b.count(cloud.OpDelete), "taken for empty, the list has undone the sighting")
}
