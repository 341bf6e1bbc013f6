// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/providertest"
)

// TestGuardedContract: behind guards a provider keeps every promise. What a gate holds back after a refusal goes when its
// time is over, so the worlds of this suite settle for that long.
func TestGuardedContract(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			providertest.Run(t, providertest.Harness{Open: func(testing.TB) providertest.World {
				clk := clocktesting.NewFakeClock(noon)
				w := world(New(p, clk, 0), clk)
				w.Process = guarded(clk, w.Account, w.Process)
				w.Settle = func() { clk.Step(6 * time.Minute) }
				elsewhere := w.Elsewhere
				w.Elsewhere = func() (providers.Provider, string) {
					other, name := elsewhere()
					return guarded(clk, name, func() providers.Provider { return other })(), name
				}
				return w
			}})
		})
	}
}

// guarded puts guards before every process's provider. Their rate is more than the suite asks for in no time at all.
func guarded(clk *clocktesting.FakeClock, account string, process func() providers.Provider) func() providers.Provider {
	return func() providers.Provider {
		return providers.NewGuarded(account, process(), providers.GuardOptions{
			Limits: providers.Limits{CallsPerSecond: 1000}, Workers: 100, Clock: clk,
		})
	}
}
