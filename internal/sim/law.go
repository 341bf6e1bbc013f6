// SPDX-License-Identifier: Apache-2.0

package sim

// law is what must hold after every step. A new one is a file of its own and its line in laws.
type law struct {
	name, says string
	// start returns the check of one run. It is called after each call with the call, and with nil after what happens
	// between calls; what it returns is why the law is broken, empty: it holds.
	start func() check
}

type check func(w *World, c *call) string

type checking struct {
	law
	holds check
}

// laws lists them in the order in which they are checked. L10, L12 and L14 are checked at the end of a run, in run.go.
func laws() []law {
	return []law{lawOneMachine(), lawNoSurge(), lawNoOrphan(), lawUnheld(), lawOwnMachinesAlone(), lawSweep(), lawNoNeedlessDelete(), lawReadyIsTrue(), lawConditions(), lawNothingSecret(), lawQuiet(), lawPaused(), lawDeadline(), lawPace(), lawBudget(), lawRetryAfter(), lawGate(), lawCollected(), lawProbed(), lawChoice(), lawHeld(), lawBoots(), lawLoop()}
}

// check checks every law.
func (w *World) check(c *call) {
	w.lookAround()
	for _, r := range w.cloud.InFlight() {
		w.strays(r)
	}
	for _, l := range w.checks {
		if w.failure != nil {
			return
		}
		if why := l.holds(w, c); why != "" {
			w.fails(l.name, why)
		}
	}
}

// plain is a check without a state of its own.
func plain(f check) func() check { return func() check { return f } }
