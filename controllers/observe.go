// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// callTimeout bounds every read and delete. Creates have a deadline of their own, counted from the intent.
const callTimeout = 30 * time.Second

// Seen is everything that the rules of decide look at: the Proxy, the ledger, the cloud, and this process's own calls.
type Seen struct {
	Now      time.Time // when the looks at the cloud began
	Deleting bool
	Abandon  bool // the abandon annotation quotes the UID

	Intent    *Intent       // the ledger's; where it was wiped, the newest that this process wrote
	Wiped     bool          // Intent is not the ledger's
	Recorded  providers.Ref // status.providerID
	Foreign   bool          // what is there isn't the Proxy's
	HighWater int64         // status.instance.incarnation

	Instances []providers.Instance // ours, in every known place, sorted
	Blind     string               // an account that the ledger or the status names but the configuration doesn't
	Traits    map[string]providers.Traits
	Calls     Calls

	Want      Want
	ReplaceAt time.Time // machines asked for before this are to be replaced; zero: none
	Unguarded map[Guard]bool
}

// look is what the cloud showed, in every place that is known for a Proxy.
type look struct {
	at        time.Time
	found     map[providers.Ref]providers.Instance
	instances []providers.Instance
	blind     string
	foreign   bool
	traits    map[string]providers.Traits
	unguarded map[Guard]bool
}

// observe looks at every known place of the Proxy: the ledger's, the recorded one and the wanted one.
func (r *ProxyReconciler) observe(ctx context.Context, p *v1alpha1.Proxy, want Want) (Seen, error) {
	l, err := r.look(ctx, p, want.Account)
	if err != nil {
		return Seen{}, err
	}
	calls := r.memory.of(p)
	calls.sight(readIntent(p), l.at)
	calls.looked(len(l.instances) == 0, l.at)
	for n, i := range l.instances {
		calls.Seen = max(calls.Seen, i.Tags.Incarnation)
		l.instances[n] = calls.remember(i, l.traits[i.Ref.Account].Lag, l.at)
	}
	return see(p, want, l, calls.snapshot()), nil
}

func (r *ProxyReconciler) look(ctx context.Context, p *v1alpha1.Proxy, wanted string) (look, error) {
	l := look{
		at: r.Clock.Now(), found: map[providers.Ref]providers.Instance{}, traits: map[string]providers.Traits{}, unguarded: r.Unguarded,
	}
	recorded, in := recordedRef(p), readIntent(p)
	known := knownAccounts(p, recorded, wanted)
	if r.off(GuardKnownPlaces) {
		known = []string{wanted}
	}
	for _, name := range known {
		acc, ok := r.Providers[name]
		if !ok {
			if name == recorded.Account || (in != nil && name == in.Account) {
				l.blind = name
			}
			continue
		}
		l.traits[name] = acc.Provider.Traits()
		if err := r.lookIn(ctx, p, acc, recorded, &l); err != nil {
			return look{}, err
		}
	}
	for _, i := range l.found {
		l.instances = append(l.instances, i)
	}
	slices.SortFunc(l.instances, older)
	return l, nil
}

// lookIn adds what is the Proxy's in one account. List and Get both count: what either of them shows exists.
func (r *ProxyReconciler) lookIn(ctx context.Context, p *v1alpha1.Proxy, acc providers.Account, recorded providers.Ref, l *look) error {
	ctx, cancel := r.within(ctx, callTimeout)
	defer cancel()
	sel := providers.Selector{Installation: r.Installation, OwnerUID: string(p.UID)}
	list, err := acc.Provider.ListByTag(ctx, sel)
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	for _, i := range list {
		if sel.Matches(i.Tags) { // never trust a filter with what may be deleted
			l.found[i.Ref] = i
		}
	}
	if recorded.Account != acc.Name {
		return nil
	}
	i, err := acc.Provider.Get(ctx, recorded)
	switch {
	case providers.Is(err, providers.NotFound):
		return nil
	case err != nil:
		return fmt.Errorf("get instance: %w", err)
	case !sel.Matches(i.Tags): // the name was given to somebody else, or status was written by somebody else
		l.foreign = true
		return nil
	}
	if listed, ok := l.found[i.Ref]; ok {
		i = further(i, listed)
	}
	l.found[i.Ref] = i
	return nil
}

// further is the newer of two reads of one instance that disagree. Reads lag, and two steps of an instance's life are
// never taken back: that it runs, and that it goes.
func further(got, listed providers.Instance) providers.Instance {
	switch {
	case got.State == providers.StateDeleting:
		return got
	case listed.State == providers.StateDeleting, got.State == providers.StateProvisioning && listed.State == providers.StateRunning:
		return listed
	default:
		return got
	}
}

// knownAccounts lists, each once, the accounts in which a machine of the Proxy can be.
func knownAccounts(p *v1alpha1.Proxy, recorded providers.Ref, wanted string) []string {
	var names []string
	if in := readIntent(p); in != nil {
		names = append(names, in.Account)
	}
	for _, n := range []string{recorded.Account, wanted} {
		if n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// recordedRef is status.providerID; what can't be read is as good as none, and the ledger and the tags still find the
// machine.
func recordedRef(p *v1alpha1.Proxy) providers.Ref {
	ref, err := providers.ParseRef(p.Status.ProviderID)
	if err != nil {
		return providers.Ref{}
	}
	return ref
}

// see puts one view of the Proxy and one look at the cloud together.
func see(p *v1alpha1.Proxy, want Want, l look, calls Calls) Seen {
	s := Seen{
		Now: l.at, Deleting: !p.DeletionTimestamp.IsZero(), Abandon: abandoned(p),
		Intent: readIntent(p), Recorded: recordedRef(p),
		Instances: l.instances, Blind: l.blind, Foreign: l.foreign, Traits: l.traits, Calls: calls, Want: want, Unguarded: l.unguarded,
	}
	if s.Intent == nil && calls.Intent.UID == p.UID {
		// What this process sent can still land, though nobody else can know any more.
		s.Intent, s.Wiped = &calls.Intent, true
	}
	if s.Intent != nil && s.Intent.At.After(l.at.Add(settle)) {
		// No clock of ours wrote that; it counts from when it was first read, or nothing would ever close it.
		dated := *s.Intent
		dated.At = calls.SightedAt
		s.Intent = &dated
	}
	if p.Status.Instance != nil && p.Status.Instance.Incarnation <= maxIncarnation {
		s.HighWater = p.Status.Instance.Incarnation
	}
	if at, err := replaceRequested(p); err == nil {
		s.ReplaceAt = at
	}
	return s
}

// older orders instances by the cloud's clock, then by locator: of twins the first one stays, whoever looks.
func older(a, b providers.Instance) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Ref.Account, b.Ref.Account), cmp.Compare(a.Ref.Path, b.Ref.Path))
}
