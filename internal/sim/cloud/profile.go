// SPDX-License-Identifier: Apache-2.0

// Package cloud is a model of clouds behind providers.Provider, for simulation and tests. It lags, forgets, says 404 for
// the living and lands creates late, as real clouds do, and it does so in the same way every time: its only clock is the
// one that it is given, its chances come from a seed, and it starts no goroutine.
package cloud

import (
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// Profile is what a kind of cloud is like. It is a value: a test may change any field of its copy.
type Profile struct {
	Name string
	// Traits are what the cloud promises. Names are unique, and create tokens remembered, where they say so.
	Traits providers.Traits
	// Zones of every account; empty: the cloud has none.
	Zones []string
	// GetLag and ListLag are how far behind the truth a read is; with Flaps that far or not at all, from call to call.
	GetLag, ListLag time.Duration
	Flaps           bool
	// EarlyNotFound is how long before an instance is gone, and its name free, Get no longer knows it.
	EarlyNotFound time.Duration
	// Boot is the time from Provisioning to Running; Leave that from an accepted delete until the instance is gone.
	Boot, Leave time.Duration
	// PageSize is the number of instances on one page of a list.
	PageSize int
}

// GCE is a cloud of unique names. Get says 404 for 8 s while a name is still held, and reads lag a little.
func GCE() Profile {
	return Profile{
		Name: "gce", Zones: []string{"europe-west1-b", "europe-west1-c", "us-east1-d"},
		Traits: providers.Traits{UniqueNames: true, Lag: 2 * time.Second, CallDeadline: time.Minute},
		GetLag: time.Second, ListLag: 2 * time.Second, EarlyNotFound: 8 * time.Second,
		Boot: 20 * time.Second, Leave: 30 * time.Second, PageSize: 3,
	}
}

// AWS is a cloud of create tokens, whose names are mere tags, and whose reads know of a change in one call and not in
// the next.
func AWS() Profile {
	return Profile{
		Name: "aws", Zones: []string{"eu-central-1a", "eu-central-1b"},
		Traits: providers.Traits{CreateToken: true, TokenTTL: 24 * time.Hour, Lag: 10 * time.Second, CallDeadline: time.Minute},
		GetLag: 10 * time.Second, ListLag: 10 * time.Second, Flaps: true,
		Boot: 15 * time.Second, Leave: 20 * time.Second, PageSize: 3,
	}
}

// DO is a cloud that promises nothing: names are not unique, there are no tokens, Get is 3 s behind and list 20 s.
func DO() Profile {
	return Profile{
		Name: "do", Zones: []string{"nyc3", "ams3"},
		Traits: providers.Traits{Lag: 20 * time.Second, CallDeadline: time.Minute},
		GetLag: 3 * time.Second, ListLag: 20 * time.Second,
		Boot: 30 * time.Second, Leave: 10 * time.Second, PageSize: 3,
	}
}

// Pod is a cluster's own API: unique names, exact reads, no zones.
func Pod() Profile {
	return Profile{
		Name:   "pod",
		Traits: providers.Traits{UniqueNames: true, CallDeadline: 30 * time.Second},
		Boot:   3 * time.Second, Leave: 5 * time.Second, PageSize: 3,
	}
}

// Profiles lists all of them.
func Profiles() []Profile { return []Profile{GCE(), AWS(), DO(), Pod()} }
