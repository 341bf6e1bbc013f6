// SPDX-License-Identifier: Apache-2.0

// Package providertest is the contract of providers.Provider as executable text. Every provider runs it in its own
// tests; one that doesn't pass it doesn't merge.
//
//	func TestContract(t *testing.T) {
//		providertest.Run(t, providertest.Harness{Open: func(t testing.TB) providertest.World { ... }})
//	}
//
// What a cloud doesn't promise (providers.Traits) and what a harness can't do (a hook that is nil) is not on the list of
// cases; no case is ever skipped.
package providertest

import (
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
)

// Harness opens worlds for the suite: one to read its Traits and hooks from, then one for each case.
type Harness struct {
	// Open returns a world of its own, in which nothing of an earlier one is found under the same account and name. What
	// it starts it stops in t.Cleanup.
	Open func(t testing.TB) World
}

// World is one account of one cloud, and what the suite may do to it. Process and Account are required. Every hook is
// optional; without it the cases that need it are not on the list.
type World struct {
	// Process returns a new provider of the account, which shares nothing with the others but the cloud: another process.
	Process func() providers.Provider
	// Account is the account's name in the configuration.
	Account string
	// Zones of the account; empty where it has none.
	Zones []string
	// PageSize of the cloud's lists; 0: not paged.
	PageSize int

	// Pass lets time pass on the cloud's clock. nil: the machine's own clock.
	Pass func(time.Duration)
	// Settle returns when every call that was sent has taken effect or never will, and reads are exact. nil: Pass of the
	// Traits' deadline and lag.
	Settle func()
	// Patience is how long an instance may take to run, or to be gone; 0: two minutes on the cloud's clock.
	Patience time.Duration

	// Exists tells, past the provider, whether there is a machine at ref.
	Exists func(ref providers.Ref) bool
	// Count tells, past the provider, how many machines there are in the account, whatever their tags.
	Count func() int
	// Plant makes a machine that isn't ours under a name. The function it returns tells whether it is still as it was.
	Plant func(zone, name string) (untouched func() bool)
	// Stop lets a machine stop by itself; Vanish takes it away past the provider.
	Stop, Vanish func(ref providers.Ref)
	// LoseCreate and LoseDelete let the next such call take effect, and its answer get lost.
	LoseCreate, LoseDelete func()
	// LateCreate lets the next create time out, and take effect later within the Traits' deadline.
	LateCreate func()
	// FailPage lets the next list break off at a page, counted from 1.
	FailPage func(page int)
	// Refuse has, for each class that the cloud can be brought to answer with, a function that makes it answer every call
	// so, and stop doing so. QuotaExceeded, Capacity and Permanent concern creates only.
	Refuse map[providers.ErrorClass]func(on bool)
	// Interrupt calls f once when the next create reaches a step, counted from 0, that is seen from outside: a request
	// arrived, a machine was made, an answer is about to be sent. reached tells whether there was such a step.
	Interrupt func(step int, f func()) (reached func() bool)
	// Elsewhere returns a provider of another account of the same kind, and that account's name.
	Elsewhere func() (providers.Provider, string)
}

// Case is one promise of the contract.
type Case struct {
	Name string // reads as a sentence
	Why  string // what goes wrong where it isn't kept
	Run  func(t testing.TB)
}

// Run checks a provider against the whole contract.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Cases(t, h) {
		t.Run(c.Name, func(t *testing.T) { c.Run(t) })
	}
}

// Cases lists what Run runs, for a caller that wants to watch the suite itself.
func Cases(t testing.TB, h Harness) []Case {
	t.Helper()
	w := h.Open(t)
	traits := w.Process().Traits()
	var cases []Case
	for _, group := range [][]promise{creating(), doubting(), reading(), removing(), refusing(), separating()} {
		for _, p := range group {
			if p.when != nil && !p.when(w, traits) {
				continue
			}
			cases = append(cases, Case{Name: p.name, Why: p.why, Run: func(t testing.TB) {
				t.Helper()
				p.check(newScene(t, h.Open(t), p.why))
			}})
		}
	}
	return cases
}

// promise is a case and when it applies.
type promise struct {
	name, why string
	when      func(World, providers.Traits) bool // nil: always
	check     func(*scene)
}

func (w World) pass(d time.Duration) {
	switch {
	case d <= 0:
	case w.Pass != nil:
		w.Pass(d)
	default:
		<-clock.RealClock{}.After(d)
	}
}

func (w World) settle(traits providers.Traits) {
	if w.Settle != nil {
		w.Settle()
		return
	}
	w.pass(traits.Deadline() + traits.Lag)
}
