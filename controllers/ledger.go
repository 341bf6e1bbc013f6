// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Intent is the ledger: what the newest create was to make, and where. It is written, with the finalizer, in one locked
// patch before the create is sent. The lock proves that the pass saw the newest Proxy, and whoever comes after a crash
// knows that a machine may exist (kubernetes-sigs/cluster-api-provider-aws#5794, #6131).
type Intent struct {
	UID types.UID `json:"uid"` // of the Proxy; an intent copied from another object is nobody's
	// Installation of the operator whose the machines are. Another one keeps its hands off.
	Installation string    `json:"installation,omitempty"`
	Incarnation  int64     `json:"incarnation"`
	Hash         string    `json:"hash"`
	Account      string    `json:"account"`
	Zone         string    `json:"zone,omitempty"`
	At           time.Time `json:"at"`
	// Boots is how many machines in a row, made from this hash before this one, didn't come up by the boot deadline, or fell
	// ill when they were young.
	Boots int `json:"boots,omitempty"`
}

// maxIncarnation is more machines than one Proxy can ever have. Somebody wrote what lies beyond it.
const maxIncarnation = 1_000_000_000

// readIntent returns the Proxy's intent, or nil if it has none that can be its own.
func readIntent(p *v1alpha1.Proxy) *Intent {
	raw, ok := p.Annotations[v1alpha1.AnnotationIntent]
	if !ok {
		return nil
	}
	var in Intent
	if err := json.Unmarshal([]byte(raw), &in); err != nil {
		return nil // somebody overwrote it: as good as wiped, and repaired in the same way
	}
	if in.UID != p.UID || in.Incarnation < 1 || in.Incarnation > maxIncarnation || in.Account == "" || in.At.IsZero() {
		return nil
	}
	return &in
}

// write stages the intent on the Proxy.
func (in Intent) write(p *v1alpha1.Proxy) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode intent: %w", err)
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[v1alpha1.AnnotationIntent] = string(raw)
	return nil
}

// doublings is Boots within its bounds, whoever wrote it.
func (in Intent) doublings() int { return min(max(in.Boots, 0), mostDoubled) }

// ahead reports whether no clock of ours can have dated the intent: the date lies more than what is usual in front of now.
func (in Intent) ahead(now time.Time) bool { return in.At.After(now.Add(settle)) }

// key is what the create of this intent is identified by.
func (in Intent) key(installation string) providers.Key {
	return providers.Key{
		InstallationID: installation, ProxyUID: string(in.UID), Incarnation: in.Incarnation, Account: in.Account, Zone: in.Zone,
	}
}

// made reports whether the instance is the one that this intent asked for.
func (in Intent) made(i providers.Instance) bool {
	return i.Tags.Incarnation == in.Incarnation && i.Ref.Account == in.Account && i.Zone == in.Zone && i.Tags.SpecHash == in.Hash
}
