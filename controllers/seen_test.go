// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// noon is now in every table.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const (
	testUID     = "uid-1"
	testAccount = "cloud"
)

// Profiles of clouds, by what they promise.
var (
	exact   = providers.Traits{UniqueNames: true, CallDeadline: 30 * time.Second}
	lagging = providers.Traits{Lag: 20 * time.Second, CallDeadline: time.Minute}
	tokens  = providers.Traits{CreateToken: true, TokenTTL: 24 * time.Hour, Lag: 10 * time.Second, CallDeadline: time.Minute}
)

// scene builds a Seen: seen(exact).machine(1).intent(1, ago).
type scene struct{ Seen }

func seen(t providers.Traits) scene {
	return scene{Seen{
		Now:    noon,
		Traits: map[string]providers.Traits{testAccount: t},
		Calls:  Calls{Deleted: map[providers.Ref]time.Time{}},
		Want: Want{
			Owner: testUID, Account: testAccount, Material: material{Port: 3128, Protocol: "HTTP"}, Inputs: "inputs",
		},
	}}
}

func ref(path string) providers.Ref { return providers.Ref{Account: testAccount, Path: path} }

// wantedHash is the hash of the material that every scene wants.
func wantedHash() string {
	return specHash(material{Port: 3128, Protocol: "HTTP"}, testUID)
}

// machine adds a running instance as wanted, made an hour ago, and changes it.
func (s scene) machine(incarnation int64, change ...func(*providers.Instance)) scene {
	i := providers.Instance{
		Ref: ref("m" + string(rune('0'+incarnation))), State: providers.StateRunning, IP: "192.0.2.1", CreatedAt: noon.Add(-time.Hour),
		Tags: providers.Tags{OwnerUID: testUID, Incarnation: incarnation, SpecHash: wantedHash()},
	}
	for _, c := range change {
		c(&i)
	}
	s.Instances = append(slices.Clone(s.Instances), i)
	slices.SortFunc(s.Instances, older)
	s.Calls.EmptySince = time.Time{}
	return s
}

func in(state providers.InstanceState) func(*providers.Instance) {
	return func(i *providers.Instance) { i.State = state }
}

func at(path string) func(*providers.Instance) {
	return func(i *providers.Instance) { i.Ref = ref(path) }
}

func hash(h string) func(*providers.Instance) {
	return func(i *providers.Instance) { i.Tags.SpecHash = h }
}

func zone(z string) func(*providers.Instance) {
	return func(i *providers.Instance) { i.Zone = z }
}

func created(t time.Time) func(*providers.Instance) {
	return func(i *providers.Instance) { i.CreatedAt = t }
}

// intent sets the ledger: as wanted, written some time ago, by an earlier process.
func (s scene) intent(incarnation int64, ago time.Duration) scene {
	s.Intent = &Intent{
		UID: types.UID(testUID), Incarnation: incarnation, Hash: wantedHash(), Account: testAccount, At: noon.Add(-ago),
	}
	return s
}

// mine makes the intent this process's own, with so many creates sent and answered.
func (s scene) mine(sent, answered int, yes bool) scene {
	s.Calls.Intent, s.Calls.Sent, s.Calls.Answered, s.Calls.Yes = *s.Intent, sent, answered, yes
	s.Calls.AnsweredAt = s.Intent.At
	return s
}

func (s scene) recorded(path string) scene {
	s.Recorded = ref(path)
	return s
}

// own says which machine this process was shown to be the Proxy's.
func (s scene) own(path string) scene {
	s.Calls.Own = ref(path)
	return s
}

// empty says since when every look has shown nothing.
func (s scene) empty(ago time.Duration) scene {
	s.Calls.EmptySince = noon.Add(-ago)
	return s
}

func (s scene) deleted(path string, ago time.Duration) scene {
	s.Calls.Deleted[ref(path)] = noon.Add(-ago)
	return s
}

func (s scene) held(left time.Duration) scene {
	s.Calls.HoldInputs, s.Calls.HoldUntil = "inputs", noon.Add(left)
	return s
}

func (s scene) problem() scene {
	s.Want.Problem = &Problem{v1alpha1.ReasonCloudInitError, "mend it", secretPoll}
	return s
}

func (s scene) zones(zones ...string) scene {
	s.Want.Zones, s.Want.Candidates = zones, zones
	return s
}

func (s scene) highWater(n int64) scene {
	s.HighWater = n
	return s
}

func (s scene) replaceAt(t time.Time) scene {
	s.ReplaceAt = t
	return s
}

func (s scene) deleting() scene {
	s.Deleting = true
	return s
}

func (s scene) blind() scene {
	s.Blind = "gone"
	return s
}

func (s scene) with(changes ...func(*Seen)) scene {
	for _, change := range changes {
		change(&s.Seen)
	}
	return s
}
