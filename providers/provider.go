// SPDX-License-Identifier: Apache-2.0

// Package providers is the seam between the operator and whatever runs its machines: the Provider contract, the
// classes of error that cross it, the key and the tags by which a machine is found again, and the registry of accounts.
// The contract as executable text is in providers/providertest; a provider that doesn't pass it doesn't merge.
package providers

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Provider runs instances in one account. Every method may be called from several goroutines at once, returns when ctx
// ends, never retries inside (the caller knows the account's budget, the provider doesn't), and returns errors as *Error.
type Provider interface {
	// Create asks for the instance of req.Key and returns it as far as it is known. One key gives at most one instance
	// where Traits promise unique names or create tokens: a repeat returns the instance of the first call. The tags are
	// part of the create call, never a second one (scrapoxy/scrapoxy#105). A machine that holds our name but not our
	// tags is Permanent with code NameConflict, and is left alone. Every class but Ambiguous promises that nothing was
	// made and nothing will be.
	Create(ctx context.Context, req CreateRequest) (Instance, error)

	// Get returns the instance at ref. NotFound within Traits().Lag of its creation proves nothing.
	Get(ctx context.Context, ref Ref) (Instance, error)

	// Delete asks for the instance at ref, and for all that Create made beside it, to go away. nil: asked; NotFound:
	// done. The caller repeats until NotFound.
	Delete(ctx context.Context, ref Ref) error

	// ListByTag returns every instance whose tags match the set fields of sel, from all pages and zones, or an error; a
	// part is never returned as the whole (kubernetes-sigs/external-dns#2858). Instances that are going away are listed
	// until they are gone, and an instance counts as there for as long as anything is left that Create made for it: one of
	// which only a disk, an address or a Secret is left is listed as Terminated (gardener/machine-controller-manager#298).
	ListByTag(ctx context.Context, sel Selector) ([]Instance, error)

	// Traits tells what this cloud guarantees. It is constant for the life of the value.
	Traits() Traits
}

// Checker is implemented by a provider that can tell without a call that a request can never work. The operator asks it
// before it takes a running machine down for the new spec.
type Checker interface {
	// Check returns nil, or a Permanent *Error with Field set. It does no I/O.
	Check(req CreateRequest) error
}

// Admitter is implemented by a guarded provider: it tells without a call whether a create would be sent now.
type Admitter interface {
	// Admit returns nil and keeps a place for the Create of that request, or the *Error that Create would give, with Held
	// set. The operator asks it before it writes down that it creates.
	Admit(req CreateRequest) error
}

// Traits are the guarantees that the reconcile loop builds on instead of guessing.
type Traits struct {
	// UniqueNames: two instances of one account and zone never hold one name at a time.
	UniqueNames bool
	// CreateToken: creates with one key are one create for TokenTTL, even after the instance is gone.
	CreateToken bool
	// TokenTTL is how long a create token is remembered.
	TokenTTL time.Duration
	// Lag is the longest time for which Get and ListByTag may miss a change. 0: reads are exact.
	Lag time.Duration
	// QuotaPerNamespace: each namespace has a quota of its own, so that a full one says nothing about the others.
	QuotaPerNamespace bool
	// CallDeadline is the longest time after which a create that was sent can still take effect; 0 means DefaultCallDeadline.
	CallDeadline time.Duration
}

// DefaultCallDeadline bounds a create call where Traits say nothing shorter.
const DefaultCallDeadline = time.Minute

// Deadline is CallDeadline, or the default.
func (t Traits) Deadline() time.Duration {
	if t.CallDeadline > 0 {
		return t.CallDeadline
	}
	return DefaultCallDeadline
}

// Idempotent reports whether a create may be sent again with the same key.
func (t Traits) Idempotent() bool { return t.UniqueNames || t.CreateToken }

// CreateRequest is everything a provider needs to make one instance.
type CreateRequest struct {
	Key  Key
	Name string // Key.Name(): the instance's name and its create token
	Tags Tags

	UserData string // cloud-init user data; empty: the provider's built-in one, which makes a working proxy
	Port     int32  // where the proxy listens
	Protocol string // HTTP, HTTPS or SOCKS5
	Username string // empty: no authentication
	Password string
	Labels   map[string]string // the user's own, beside our tags

	Image string // empty: the provider's own
	Pod   *Pod   // for providers whose machines are pods; nil: nothing was said
}

// Consistent returns nil if key, name and tags fit each other and the account, else a Permanent *Error of the operation op: only
// a mistake in the operator makes such a request.
func (r CreateRequest) Consistent(op, account string) error {
	refused := func(text string) error { return &Error{Class: Permanent, Op: op, Err: errors.New(text)} }
	switch {
	case r.Key.Account != account:
		return refused("the key names another account: " + r.Key.Account)
	case r.Name != r.Key.Name():
		return refused("the name isn't the key's")
	case !r.Tags.Complete():
		return refused("the tags aren't complete")
	}
	return nil
}

// Pod is what only a pod has, as spec.kubernetes says it and as a pod's spec takes it.
type Pod struct {
	Resources                 corev1.ResourceRequirements       `json:"resources,omitzero"`
	NodeSelector              map[string]string                 `json:"nodeSelector,omitempty"`
	Tolerations               []corev1.Toleration               `json:"tolerations,omitempty"`
	Affinity                  *corev1.Affinity                  `json:"affinity,omitempty"`
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	ImagePullSecrets          []corev1.LocalObjectReference     `json:"imagePullSecrets,omitempty"`
	ImagePullPolicy           corev1.PullPolicy                 `json:"imagePullPolicy,omitempty"`
	ServiceAccountName        string                            `json:"serviceAccountName,omitempty"`
}

// InstanceState is where an instance is in its life.
type InstanceState string

// The states of an instance. A provider maps its cloud's states to these.
const (
	StateProvisioning InstanceState = "Provisioning" // accepted, not serving yet
	StateRunning      InstanceState = "Running"
	StateStopped      InstanceState = "Stopped"    // exists, doesn't run, won't start by itself
	StateTerminated   InstanceState = "Terminated" // ended for good (failed, preempted), still on the books
	StateDeleting     InstanceState = "Deleting"   // on its way out; a delete was accepted
)

// Alive reports whether an instance in this state serves or is about to.
func (s InstanceState) Alive() bool { return s == StateProvisioning || s == StateRunning }

// Instance is a machine as the cloud tells of it.
type Instance struct {
	Ref       Ref
	Name      string
	Zone      string // empty where the account has no zones
	State     InstanceState
	IP        string    // empty until known
	Port      int32     // the port that serves; 0: the one that was asked for
	Tags      Tags      // the record it carries; zero for a machine that isn't ours
	CreatedAt time.Time // by the cloud's clock

	// Problem is why the instance doesn't run, in the cloud's own code, the same from look to look ("Unschedulable"); empty:
	// nothing is known to be wrong. It is shown in status. Detail says it in the cloud's words, for log and Event alone.
	Problem string
	Detail  string

	// Overdue says of an instance that is Deleting and should have been gone by now since when, and what keeps it, in one or
	// two sentences that are the same from look to look; empty: it is within its time. It is shown in status.
	Overdue string
}

// Genuine reports whether the instance has the name that the key in its tags gives. A person can copy our tags to a
// machine of their own; they don't copy its name too, since the name is the tags' hash. What isn't genuine is never
// adopted, counted or deleted.
func (i Instance) Genuine() bool {
	k := Key{
		InstallationID: i.Tags.Installation, ProxyUID: i.Tags.OwnerUID, Incarnation: i.Tags.Incarnation, Account: i.Ref.Account, Zone: i.Zone,
	}
	return i.Tags.Complete() && i.Name == k.Name()
}
