// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	Ahead     bool          // Intent is dated by when it was first read: the ledger's date lies ahead of our clock
	Recorded  providers.Ref // status.providerID
	Foreign   bool          // what is there isn't the Proxy's
	HighWater int64         // status.instance.incarnation

	Instances []providers.Instance // ours, in every known place, sorted
	Blind     string               // an account that the ledger or the status names but the configuration doesn't
	Traits    map[string]providers.Traits
	Calls     Calls

	Want      Want
	Vitals    Vitals
	ReplaceAt time.Time // machines asked for before this are to be replaced; zero: none
	Unguarded map[Guard]bool
}

// look is what the cloud showed, in every place that is known for a Proxy.
type look struct {
	at        time.Time // when the oldest of the lists began
	found     map[providers.Ref]providers.Instance
	instances []providers.Instance
	blind     string
	foreign   bool
	traits    map[string]providers.Traits
	unguarded map[Guard]bool
}

// listEvery is how often an account is listed at most: a list that is younger is new enough for all but who has changed
// something since.
const listEvery = time.Second

// observe looks at every known place of the Proxy: the ledger's, the recorded one and the wanted one. A machine at rest is
// looked up in the account's newest list, which all its Proxies share; anything else is looked at anew.
func (r *ProxyReconciler) observe(ctx context.Context, p *v1alpha1.Proxy, want Want) (Seen, error) {
	calls := r.memory.of(p)
	if rests, err := r.rests(ctx, p, want, calls); rests != nil || err != nil {
		return *cmp.Or(rests, &Seen{}), err
	}
	notBefore := r.newEnough(calls)
	l, err := r.look(ctx, p, want.Account, func(ctx context.Context, lists *providers.Lister) (*providers.Snapshot, error) {
		return lists.Since(ctx, notBefore)
	})
	if err == nil {
		err = r.ask(ctx, p, &l)
	}
	// A Get that waits for its turn goes on with the list that it began with. With a new one each time, an account of one call
	// in two seconds had lists for ever and no Get.
	if calls.Waits = l.at; !providers.IsHeld(err) || l.found == nil {
		calls.Waits = time.Time{}
	}
	if err != nil {
		return Seen{}, err
	}
	l.sort()
	calls.own(recordedRef(p), l.found)
	calls.sight(readIntent(p), l.at)
	calls.looked(len(l.instances) == 0, l.at)
	for n, i := range l.instances {
		calls.Seen = max(calls.Seen, i.Tags.Incarnation)
		l.instances[n] = calls.remember(i, l.traits[i.Ref.Account].Lag, l.at)
	}
	s := see(p, want, l, calls.snapshot())
	if p.DeletionTimestamp.IsZero() {
		s.Vitals = r.vitals(p, s)
		s.Calls = calls.snapshot()
	}
	return s, nil
}

// newEnough is when a list must have begun at the earliest for a closer look.
func (r *ProxyReconciler) newEnough(calls *Calls) time.Time {
	now := r.Clock.Now()
	notBefore := now.Add(-listEvery)
	if since := now.Sub(calls.Waits); since > listEvery && since < driftPoll {
		notBefore = calls.Waits
	}
	if !calls.Touched.Before(notBefore) {
		notBefore = calls.Touched.Add(1) // what began at that very moment may be from before
	}
	if r.off(GuardFreshList) {
		notBefore = now.Add(-driftPoll)
	}
	return notBefore
}

// rests returns what was seen if the newest list shows that there is nothing to do and nothing to write; nil: a closer
// look is needed.
func (r *ProxyReconciler) rests(ctx context.Context, p *v1alpha1.Proxy, want Want, calls *Calls) (*Seen, error) {
	recorded := recordedRef(p)
	if !p.DeletionTimestamp.IsZero() || (recorded.IsZero() && want.Problem == nil) {
		return nil, nil //nolint:nilnil // it doesn't rest
	}
	l, err := r.look(ctx, p, want.Account, func(ctx context.Context, lists *providers.Lister) (*providers.Snapshot, error) {
		return lists.Recent(ctx, driftPoll)
	})
	if err != nil {
		return nil, err
	}
	if _, ok := l.found[recorded]; (!ok && !recorded.IsZero()) || !l.at.After(calls.Touched) {
		return nil, nil //nolint:nilnil // it doesn't rest
	}
	l.sort()
	for n, i := range l.instances { // who calls a machine not running by an old list, ends its probes
		l.instances[n] = calls.remember(i, l.traits[i.Ref.Account].Lag, l.at)
	}
	s := see(p, want, l, calls.snapshot())
	s.Now = r.Clock.Now() // a machine at rest is there; the age of the list counts only for what isn't
	s.Vitals = r.vitals(p, s)
	if !s.rests(p, decide(s)) {
		return nil, nil //nolint:nilnil // it doesn't rest
	}
	calls.own(recorded, l.found)
	if len(s.Instances) > 0 {
		calls.looked(false, l.at)
	}
	return &s, nil
}

// rests reports whether the step changes nothing, and there is nothing to write about it. A Proxy from which nothing can be
// made and nothing ever was rests too, whatever it waits for; one that has an intent may have a machine that an old list
// doesn't show.
func (s Seen) rests(p *v1alpha1.Proxy, st Step) bool {
	if st.Do != Nothing && (st.Do != Wait || s.Want.Problem == nil || s.Intent != nil) {
		return false
	}
	after := p.DeepCopy()
	report(after, s, st)
	return p.Status.ObservedGeneration == p.Generation && equality.Semantic.DeepEqual(after.Status, p.Status)
}

// look looks up the Proxy's instances in a list of each account where one can be.
func (r *ProxyReconciler) look(
	ctx context.Context, p *v1alpha1.Proxy, wanted string, list func(context.Context, *providers.Lister) (*providers.Snapshot, error),
) (look, error) {
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
		cctx, cancel := r.within(ctx, callTimeout)
		s, err := list(cctx, r.lister(acc))
		cancel()
		if err != nil {
			return look{}, fmt.Errorf("list instances: %w", err)
		}
		if s.StartedAt.Before(l.at) {
			l.at = s.StartedAt
		}
		for _, i := range s.Of(string(p.UID)) {
			if r.owns(p, i) {
				l.found[i.Ref] = i
			}
		}
	}
	return l, nil
}

// ask asks for the recorded instance itself where that can tell more than the list: it isn't in the list, or the Proxy is
// being deleted. List and Get both count: what either of them shows exists.
func (r *ProxyReconciler) ask(ctx context.Context, p *v1alpha1.Proxy, l *look) error {
	recorded := recordedRef(p)
	_, known := l.traits[recorded.Account]
	_, found := l.found[recorded]
	if !known || found {
		return nil
	}
	ctx, cancel := r.within(ctx, callTimeout)
	defer cancel()
	i, err := r.Providers[recorded.Account].Provider.Get(ctx, recorded)
	switch {
	case providers.Is(err, providers.NotFound):
		return nil
	case err != nil:
		return fmt.Errorf("get instance: %w", err)
	case !r.owns(p, i): // the name was given to somebody else, or status was written by somebody else
		l.foreign = true
		return nil
	}
	l.found[i.Ref] = i
	return nil
}

// owns reports whether the instance is one that this installation made for the Proxy. The whole record must fit, not the UID
// alone: who may make pods in another namespace could write one that takes the Proxy's place, or ends its machine.
func (r *ProxyReconciler) owns(p *v1alpha1.Proxy, i providers.Instance) bool {
	return providers.Selector{Installation: r.Installation, OwnerUID: string(p.UID)}.Matches(i.Tags) && i.Genuine() &&
		isOf(client.ObjectKeyFromObject(p), i)
}

// isOf reports whether the record names that Proxy, and an incarnation after which there can be another.
func isOf(id types.NamespacedName, i providers.Instance) bool {
	return i.Tags.Namespace == id.Namespace && i.Tags.Name == id.Name && i.Tags.Incarnation < maxIncarnation
}

// sort puts what was found in the order in which twins are judged.
func (l *look) sort() {
	for _, i := range l.found {
		l.instances = append(l.instances, i)
	}
	slices.SortFunc(l.instances, older)
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
	if s.Intent != nil && (s.Intent.ahead(l.at) || (calls.WasAhead && calls.sighted(*s.Intent))) {
		// No clock of ours wrote that; it counts from when it was first read, or nothing would ever close it.
		dated := *s.Intent
		dated.At = calls.SightedAt
		s.Intent, s.Ahead = &dated, true
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
