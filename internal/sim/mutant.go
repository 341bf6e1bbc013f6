// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Mutant is a named bug: precautions of the reconciler that are left out, or a door that makes one worthless. A
// simulation that doesn't notice it proves nothing about that precaution.
type Mutant struct {
	Name      string
	unguarded map[controllers.Guard]bool
	provider  func(providers.Provider) providers.Provider
	client    func(client.Client) client.Client
	guarded   func(providers.Provider) providers.Provider // around the guards
	prober    func(health.Prober) health.Prober
	health    func(controllers.Health) controllers.Health
	unlimited bool     // no guards
	plans     []string // of more than one fault, where one doesn't show it
}

// Mutants lists them.
func Mutants() []Mutant {
	return slices.Concat(modelled(), ofRules(), ofGuards(), ofDoors(), ofAccounts(), ofSweeps(), ofHealth())
}

func without(name string, guards ...controllers.Guard) Mutant {
	m := Mutant{Name: name, unguarded: map[controllers.Guard]bool{}}
	for _, g := range guards {
		m.unguarded[g] = true
	}
	return m
}

func (m Mutant) on(plans ...string) Mutant {
	m.plans = plans
	return m
}

// modelled are the nine whose idea was tried out on a model before there was a reconciler.
func modelled() []Mutant {
	return []Mutant{
		without("finalizer off though a create is open", "create open", "gone, not proved").on(
			"do,delete@6,crash-late@5:55", "gce,delete@6,crash-late@5:55"),
		without("create again though a create is open", "create open", "create open, can be sent again", "vanished, not proved").on("gce"),
		without("destroys without reading live", controllers.GuardLiveRead).on("do,edit@56:3129,revert@59,slow@54:70", "gce,edit@37:3129,revert@40,other-account@35"),
		provided("looks only at what status names", func(p providers.Provider) providers.Provider { return blindLists{p} }).on("gce,replace@7,clock@6:300", "do,crash-after@5"),
		clientOf("finalizer after the create", func(c client.Client) client.Client { return lateFinalizer{c} }).on("do,delete@6", "pod,delete@6"),
		without("adopts without comparing what it was made from", controllers.GuardSpecCompared).on("gce,edit@44:3129"),
		clientOf("intent without lock", func(c client.Client) client.Client { return unlocked{c} }).on("gce,account@4,zone@6:1,old-leader@2:50"),
		without("an answered create is closed before it is seen", controllers.GuardSeen, "vanished, not proved").on("do"),
		traits("the lag is taken for nothing", func(t *providers.Traits) { t.Lag = 0 }).on("do"),
	}
}

// ofRules leave out rules by name.
func ofRules() []Mutant {
	return []Mutant{
		without("twins stay", "left over beside the machine to keep").on("do,wipe@6,crash-after@5"),
		without("a lost ledger stays lost", "ledger lost").on("do,wipe@53"),
		without("what vanished needs no proof", "vanished, not proved").on("do,wipe@7,old-leader@8:5", "do,wipe@7,rejected@6"),
		without("on the way out one look is enough", "gone, not proved", "recorded, and never told to go").on(
			"pod,delete@20,page-missing@21,get-404@22"),
		without("what is going away isn't waited for", "on its way out", "vanished, not proved").on("gce,edit@44:3129"),
		without("a held create isn't held", "held back").on("gce,refused@5:600"),
	}
}

// ofGuards leave out precautions that aren't rules.
func ofGuards() []Mutant {
	return []Mutant{
		without("a Secret that is gone takes the machine down", controllers.GuardKeepServing, "inputs unusable").on("gce,unsecret@44"),
		without("incarnations are counted by the ledger alone", controllers.GuardNewest).on("gce,wipe@37,travel@14:1"),
		without("a no closes the intent of another process", controllers.GuardOwnCreates).on("gce,delete@11,crash-late@5:55,quota@9"),
		without("sent after the deadline", controllers.GuardDeadline).on("do,slow-answer@4:70"),
		without("looks only where the spec points", controllers.GuardKnownPlaces).on("gce,account@44"),
		without("sends a create again without reading live", controllers.GuardLiveRepeat).on("pod,account@7,travel@24:3"),
		without("status is written every time", controllers.GuardEqualStatus).on("pod"),
		without("the latch is by generation of nothing", controllers.GuardLatchLifts).on("pod,edit@20:3129,invalid@5"),
		without("a finalizer that was wiped stays off", controllers.GuardFinalizer).on("pod,strip@22"),
		without("deletes what nothing but status names", controllers.GuardOwn).on("gce,misname@7,delete@8"),
		without("who asked for a machine forgets it with its Proxy", controllers.GuardStray).on("do,unheld@4", "aws,unheld@4"),
		without("an old view's conditions pass for those of the newest generation", controllers.GuardGeneration).on("pod,recreate@17,old-leader@16:50"),
		without("an old view brings its Ready back", controllers.GuardOldReady).on("gce,pause@44,edit@46:3129,resume@52,travel@60:3"),
	}
}

// ofDoors make a door lie, or drop what the reconciler relies on.
func ofDoors() []Mutant {
	return []Mutant{
		traits("being seen closes an intent without tokens", func(t *providers.Traits) { t.CreateToken, t.TokenTTL = true, 24*time.Hour }).on("do,old-leader@5:50", "do,zone@4:1,old-leader@8:5", "do,late@5:55"),
		traits("repeats where nothing is unique", func(t *providers.Traits) { t.UniqueNames = true }).on("do,old-leader@5:50", "do,zone@4:1,old-leader@8:5", "do,lost@5"),
		provided("the key has no incarnation", func(p providers.Provider) providers.Provider { return oneKey{p} }).on("aws,rotate@47:1"),
		provided("a failed list is an empty one", func(p providers.Provider) providers.Provider { return emptyLists{p} }).on("gce,keys-lost@27:120", "aws,cloud-down@33:120", "gce,delete@20,keys-lost@35:120"),
		provided("a lost answer is a no", func(p providers.Provider) providers.Provider {
			return reclassed{p, providers.Ambiguous, providers.Transient}
		}).on("do,lost@5"),
		provided("a quota is for ever", func(p providers.Provider) providers.Provider {
			return reclassed{p, providers.QuotaExceeded, providers.Permanent}
		}).on("do,quota@5"),
		provided("404 on delete is an error", func(p providers.Provider) providers.Provider { return deleteNever404{p} }).on("gce,delete@37,vanishes@32", "do,delete@56,stop-before@82"),
		provided("a machine that boots is taken for running", func(p providers.Provider) providers.Provider { return hasty{p} }).on("gce"),
		provided("request ids are shown", func(p providers.Provider) providers.Provider { return talkative{p} }).on("do,denied@5"),
		clientOf("paused isn't seen", func(c client.Client) client.Client { return unpaused{c} }).on("pod,pause@4,edit@6:3129,resume@12"),
	}
}

func provided(name string, f func(providers.Provider) providers.Provider) Mutant {
	return Mutant{Name: name, provider: f}
}

func clientOf(name string, f func(client.Client) client.Client) Mutant {
	return Mutant{Name: name, client: f}
}

func traits(name string, change func(*providers.Traits)) Mutant {
	return provided(name, func(p providers.Provider) providers.Provider { return otherTraits{p, change} })
}

type otherTraits struct {
	providers.Provider
	change func(*providers.Traits)
}

func (o otherTraits) Traits() providers.Traits {
	t := o.Provider.Traits()
	o.change(&t)
	return t
}

// Check passes on what embedding hides.
func (o otherTraits) Check(req providers.CreateRequest) error { return checked(o.Provider, req) }

func checked(p providers.Provider, req providers.CreateRequest) error {
	if c, ok := p.(providers.Checker); ok {
		return c.Check(req)
	}
	return nil
}

// unlocked drops the optimistic lock of every patch.
type unlocked struct{ client.Client }

func (u unlocked) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return u.Client.Patch(ctx, o, editedPatch{p, func(m metadata) { delete(m, "resourceVersion") }}, opts...)
}

// lateFinalizer leaves the finalizer out of the patch that writes the intent.
type lateFinalizer struct{ client.Client }

func (l lateFinalizer) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return l.Client.Patch(ctx, o, editedPatch{p, func(m metadata) {
		if _, intent := m["annotations"]; intent {
			delete(m, "finalizers")
		}
	}}, opts...)
}

// unpaused hides the annotation.
type unpaused struct{ client.Client }

func (u unpaused) Get(ctx context.Context, id client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := u.Client.Get(ctx, id, o, opts...)
	if p, ok := o.(*v1alpha1.Proxy); ok {
		delete(p.Annotations, v1alpha1.AnnotationPaused)
	}
	return err
}
