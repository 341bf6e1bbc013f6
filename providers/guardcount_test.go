// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// lists sets what the cloud lists: the machines of these Proxies.
func (b *bench) lists(numbers ...int) {
	b.cloud.list = nil
	for _, n := range numbers {
		b.cloud.list = append(b.cloud.list, machine(request(n, "")))
	}
}

func TestNoMoreMachinesThanTheLimit(t *testing.T) {
	full := func(b *bench, err error) {
		b.t.Helper()
		b.held(err, providers.QuotaExceeded, providers.CodeMaxInstances, time.Minute)
	}
	cases := map[string]func(*bench){ // maxInstances 3, lag 10 s; nothing was listed
		"nothing is made before a list was seen": func(b *bench) {
			b.held(b.Admit(request(1, "")), providers.Throttled, providers.CodeMaxInstances, time.Second)
			b.held(b.create(1), providers.Throttled, providers.CodeMaxInstances, time.Second)
			b.goes(b.look())
			b.goes(b.create(1))
		},
		"a list of one Proxy's machines isn't the list": func(b *bench) {
			_, err := b.ListByTag(context.Background(), providers.Selector{Installation: "inst", OwnerUID: "uid-1"})
			require.NoError(b.t, err)
			b.held(b.create(1), providers.Throttled, providers.CodeMaxInstances, time.Second)
			require.False(b.t, b.State().Counted)
		},
		"a list that failed isn't a list": func(b *bench) {
			b.answers(providers.Transient)
			b.goes(b.look())
			b.held(b.create(1), providers.Throttled, providers.CodeMaxInstances, time.Second)
		},
		"what the list shows counts": func(b *bench) {
			b.lists(1, 2, 3)
			b.goes(b.look())
			full(b, b.create(4))
			full(b, b.Admit(request(4, "")))
			b.lists(1, 2)
			b.goes(b.look())
			b.goes(b.create(4))
		},
		"what isn't genuine doesn't count": func(b *bench) {
			b.lists(1, 2, 3)
			b.cloud.list[0].Name = "copied-tags"
			other := request(2, "")
			other.Key.InstallationID, other.Tags.Installation = "another", "another"
			other.Name = other.Key.Name()
			b.cloud.list[1] = machine(other)
			b.goes(b.look())
			require.Equal(b.t, 1, b.State().Instances)
			b.goes(b.create(4))
		},
		"twins count twice": func(b *bench) {
			b.lists(1, 1, 1)
			b.goes(b.look())
			full(b, b.create(4))
		},
		"what was sent since counts": func(b *bench) {
			b.goes(b.look())
			for n := range 3 {
				b.goes(b.create(n))
			}
			full(b, b.create(4))
		},
		"what others were admitted for counts": func(b *bench) {
			b.goes(b.look())
			for n := range 3 {
				require.NoError(b.t, b.Admit(request(n, "")))
			}
			full(b, b.Admit(request(4, "")))
			require.NoError(b.t, b.Admit(request(1, "")), "asked again, it is the same place")
			b.goes(b.create(1))
			b.pass(time.Minute) // the others never came
			b.goes(b.create(4))
			b.goes(b.create(5))
			full(b, b.create(6))
		},
		"a Proxy that goes on to its next machine isn't in its own way": func(b *bench) {
			b.goes(b.look())
			for n := range 3 {
				require.NoError(b.t, b.Admit(request(n, "")))
			}
			next := request(1, "")
			next.Key.Incarnation = 2
			require.NoError(b.t, b.Admit(next))
			full(b, b.Admit(request(4, "")))
		},
		"a machine that is listed before its create is answered counts once": func(b *bench) {
			b.goes(b.look())
			b.cloud.during = func() {
				b.cloud.during = nil
				b.lists(1)
				b.goes(b.look())
				b.goes(b.create(2))
				b.goes(b.create(3))
				full(b, b.create(4))
			}
			b.goes(b.create(1))
		},
		"a create that was sent again counts once": func(b *bench) {
			b.goes(b.look())
			b.answers(providers.Ambiguous)
			b.goes(b.create(1))
			b.goes(b.create(1))
			b.answers("")
			b.goes(b.create(2))
			b.goes(b.create(3))
			b.goes(b.create(1)) // and may be sent again at the limit
			full(b, b.create(4))
			b.lists(1, 2, 3)
			b.goes(b.look())
			b.goes(b.create(1)) // though it is listed
		},
		"a certain no counts no more": func(b *bench) {
			b.goes(b.look())
			b.answers(providers.Permanent)
			for n := range 10 {
				b.goes(b.create(n))
			}
			b.answers("")
			for n := range 3 {
				b.goes(b.create(20 + n))
			}
			full(b, b.create(4))
		},
		"a certain no to a repeat doesn't take the first call back": func(b *bench) {
			b.goes(b.look())
			b.answers(providers.Ambiguous)
			b.goes(b.create(1))
			b.answers(providers.Permanent)
			b.goes(b.create(1))
			b.answers("")
			b.goes(b.create(2))
			b.goes(b.create(3))
			full(b, b.create(4))
		},
		"a list that is too early to show a machine doesn't disprove it": func(b *bench) {
			b.goes(b.look())
			for n := range 3 {
				b.goes(b.create(n))
			}
			b.pass(10 * time.Second)
			b.goes(b.look())
			full(b, b.create(4))
			b.pass(time.Millisecond)
			b.goes(b.look())
			b.goes(b.create(4))
		},
		"a lost answer counts until the machine can't come any more": func(b *bench) {
			b.goes(b.look())
			b.answers(providers.Ambiguous)
			for n := range 3 {
				b.goes(b.create(n))
			}
			b.answers("")
			b.pass(70 * time.Second) // deadline and lag
			b.goes(b.look())
			full(b, b.create(4))
			b.pass(time.Millisecond)
			b.goes(b.look())
			b.goes(b.create(4))
		},
		"a list that began during a create doesn't disprove it": func(b *bench) {
			b.goes(b.look())
			b.cloud.during = func() {
				b.cloud.during = nil
				b.pass(time.Hour)
				b.goes(b.look())
			}
			b.goes(b.create(1))
			b.goes(b.create(2))
			b.goes(b.create(3))
			full(b, b.create(4))
		},
		"a list that is older than the newest tells nothing": func(b *bench) {
			b.cloud.during = func() {
				b.cloud.during = nil
				b.pass(time.Second)
				b.lists(1, 2, 3)
				b.goes(b.look())
				b.lists()
			}
			b.goes(b.look())
			full(b, b.create(4))
			require.Equal(b.t, 3, b.State().Instances)
		},
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, providers.GuardOptions{Limits: providers.Limits{MaxInstances: 3, Burst: 1000}, Workers: 100})
			b.cloud.traits.Lag = 10 * time.Second
			b.Guarded = providers.NewGuarded("acme", b.cloud, providers.GuardOptions{
				Limits: providers.Limits{MaxInstances: 3, Burst: 1000}, Workers: 100, Clock: b.clock,
			})
			check(b)
		})
	}
}

func TestNoLimitOnMachines(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{Burst: 1000}})
	for n := range 500 {
		b.goes(b.create(n))
	}
	b.lists(1, 2)
	b.goes(b.look())
	s := b.State()
	require.True(t, s.Counted)
	require.Equal(t, 2, s.Instances)
	require.Zero(t, s.MaxInstances)
}
