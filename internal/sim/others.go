// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"github.com/proxy-operator/proxy-operator/providers"
)

// populateOthers makes what nobody may touch: a machine without tags, one of another installation whose Proxy has the same
// name, and one that its installation really made; a machine that a neighbour operator of this installation made for a
// namespace that isn't watched; and one that a person labelled to look like ours.
func (w *World) populateOthers() {
	first, zone := w.api.Proxies()[0], w.zones()[0]
	tags := func(installation, uid, namespace string) providers.Tags {
		return providers.Tags{
			ManagedBy: providers.ManagedBy, Installation: installation, OwnerUID: uid, Namespace: namespace, Name: first.Name, Incarnation: 1, SpecHash: "v1:0",
		}
	}
	w.foreign = []providers.Ref{
		w.cloud.PlantForeign(accounts[0], zone, "somebody"),
		w.cloud.Plant(accounts[0], zone, "neighbour", tags(theirs, "another-cluster's", namespace)),
		w.plantGenuine(accounts[0], zone, tags(theirs, "the-other-cluster's", namespace)),
		w.plantGenuine(accounts[0], zone, tags(installation, "a-neighbour's", "neighbour")),
		w.cloud.Plant(accounts[0], zone, "mine", tags(installation, "nobody's", namespace)),
	}
}

// plantGenuine makes a machine with the name that its tags give.
func (w *World) plantGenuine(account, zone string, t providers.Tags) providers.Ref {
	k := providers.Key{InstallationID: t.Installation, ProxyUID: t.OwnerUID, Incarnation: t.Incarnation, Account: account, Zone: zone}
	return w.cloud.Plant(account, zone, k.Name(), t)
}

// plantOrphans makes machines of ours whose Proxies are long gone.
func (w *World) plantOrphans(n int) []providers.Ref {
	var out []providers.Ref
	for range max(1, n) {
		w.planted++
		uid := fmt.Sprintf("gone-%d", w.planted)
		w.orphans[uid] = leftPlanted
		out = append(out, w.plantGenuine(accounts[0], w.zones()[0], providers.Tags{
			ManagedBy: providers.ManagedBy, Installation: installation, OwnerUID: uid, Namespace: namespace, Name: uid, Incarnation: 1, SpecHash: "v1:0",
		}))
	}
	return out
}

// lookAround notes every machine as it truly is.
func (w *World) lookAround() {
	all := w.cloud.All()
	w.all, w.others = all[:0], 0
	for _, i := range all {
		switch {
		case !slices.Contains(w.foreign, i.Ref):
			w.all = append(w.all, i)
		case i.State.Alive():
			w.others++
		}
	}
}
