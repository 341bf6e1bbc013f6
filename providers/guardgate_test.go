// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// createIn is a create in a zone.
func (b *bench) createIn(n int, zone string) error {
	_, err := b.Create(context.Background(), request(n, zone))
	return err
}

func (b *bench) closed() []providers.GateState {
	var out []providers.GateState
	for _, g := range b.State().Gates {
		if g.Closed {
			out = append(out, g)
		}
	}
	return out
}

// eachGate runs a check for the gate of each class.
func eachGate(t *testing.T, check func(b *bench, gate string, class providers.ErrorClass)) {
	t.Helper()
	for gate, class := range map[string]providers.ErrorClass{
		providers.GateQuota: providers.QuotaExceeded, providers.GateCapacity: providers.Capacity,
	} {
		t.Run(gate, func(t *testing.T) {
			b := newBench(t, providers.GuardOptions{Workers: 10})
			b.answers(class)
			b.goes(b.createIn(1, "a"))
			b.answers("")
			check(b, gate, class)
		})
	}
}

func TestAGateHoldsBackTheCreatesOfItsZone(t *testing.T) {
	eachGate(t, func(b *bench, gate string, class providers.ErrorClass) {
		require.Equal(b.t, []providers.GateChange{{Account: "acme", Zone: "a", Gate: gate, Owner: request(1, "a").Tags}}, b.changes)
		b.held(b.createIn(2, "a"), class, providers.CodeGateClosed, 5*time.Minute)
		b.held(b.Admit(request(3, "a")), class, providers.CodeGateClosed, 5*time.Minute+50*time.Millisecond)
		b.held(b.createIn(1, "a"), class, providers.CodeGateClosed, 5*time.Minute+100*time.Millisecond)
		b.goes(b.createIn(2, "b"))
		b.goes(b.get(1))
		b.goes(b.look())
		require.Equal(b.t, []providers.GateState{{Zone: "a", Gate: gate, Closed: true}}, b.closed())
		require.Equal(b.t, uint64(3), b.State().Refusals[providers.CodeGateClosed])
		b.pass(5*time.Minute - time.Millisecond)
		b.held(b.createIn(4, "a"), class, providers.CodeGateClosed, 151*time.Millisecond)
		b.goes(b.delete(1))
		require.Len(b.t, b.changes, 1, "one change is told once")
	})
}

// Quotas of pods are those of namespaces: a full one must not hold back the creates of all others.
func TestAGateIsOfANamespaceWhereEachHasItsQuota(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Workers: 10})
	quotas := &stub{calls: map[string]int{}, traits: providers.Traits{QuotaPerNamespace: true}}
	b.cloud = quotas
	b.Guarded = providers.NewGuarded("acme", quotas, providers.GuardOptions{
		Workers: 10, Clock: b.clock, Report: func(_ context.Context, c providers.GateChange) { b.changes = append(b.changes, c) },
	})
	in := func(n int, namespace string) providers.CreateRequest {
		req := request(n, "")
		req.Tags.Namespace = namespace
		return req
	}
	create := func(req providers.CreateRequest) error {
		_, err := b.Create(context.Background(), req)
		return err
	}
	b.answers(providers.QuotaExceeded)
	b.goes(create(in(1, "full")))
	b.answers("")
	require.Equal(t, []providers.GateChange{{Account: "acme", Namespace: "full", Gate: providers.GateQuota, Owner: in(1, "full").Tags}}, b.changes)
	require.Equal(t, []providers.GateState{{Zone: "full", Gate: providers.GateQuota, Closed: true}}, b.closed())
	b.held(create(in(2, "full")), providers.QuotaExceeded, providers.CodeGateClosed, 5*time.Minute)
	b.goes(create(in(3, "free")))
	require.True(t, b.Shut("", "full"))
	require.False(t, b.Shut("", "free"))
	b.pass(5 * time.Minute)
	b.goes(create(in(2, "full")))
	require.Equal(t, providers.GateChange{Account: "acme", Namespace: "full", Gate: providers.GateQuota, Open: true, Owner: in(2, "full").Tags}, b.changes[1])
	require.False(t, b.Shut("", "full"))
}

// TestAGateToWhichNobodyComesIsForgotten: those of namespaces that were gone stayed for ever, with their series, an alert for
// each that was closed, and every replacement held where the one Proxy without a machine had been deleted.
func TestAGateToWhichNobodyComesIsForgotten(t *testing.T) {
	const forgotten = 15 * time.Minute
	eachGate(t, func(b *bench, gate string, class providers.ErrorClass) {
		for range 4 { // who waits comes every five minutes, and a minute later where many wait
			b.pass(6 * time.Minute)
			require.NoError(b.t, b.Admit(request(7, "a")))
		}
		require.Len(b.t, b.closed(), 1, "they came, though none has asked the cloud")
		b.answers(class)
		b.goes(b.createIn(7, "a"))
		b.pass(forgotten - time.Millisecond)
		require.Equal(b.t, []providers.GateState{{Zone: "a", Gate: gate, Closed: true}}, b.State().Gates)
		require.True(b.t, b.Shut("a", "crawl"))
		require.True(b.t, b.Shut("a", "crawl"), "to ask here is not to come: nobody opens a gate by it")
		b.pass(time.Minute)
		require.False(b.t, b.Shut("a", "crawl"))
		require.Empty(b.t, b.State().Gates)
		require.Len(b.t, b.changes, 1, "nobody has told that there is room")
		b.answers("")
		b.goes(b.createIn(9, "a"))
	})
	t.Run("one that is open goes too", func(t *testing.T) {
		eachGate(t, func(b *bench, _ string, _ providers.ErrorClass) {
			b.pass(5 * time.Minute)
			b.goes(b.createIn(7, "a"))
			for range 20 {
				b.pass(time.Minute)
				b.goes(b.createIn(7, "a"))
			}
			require.Empty(b.t, b.State().Gates)
		})
	})
}

func TestOneProxyProbesAGate(t *testing.T) {
	eachGate(t, func(b *bench, gate string, class providers.ErrorClass) {
		b.pass(5 * time.Minute)
		require.NoError(b.t, b.Admit(request(7, "a")))
		b.held(b.createIn(8, "a"), class, providers.CodeGateClosed, time.Second)
		b.held(b.Admit(request(9, "a")), class, providers.CodeGateClosed, time.Second+50*time.Millisecond)
		require.NoError(b.t, b.Admit(request(7, "a")), "its Admit and its Create are one")

		b.answers(class)
		b.cloud.during = func() {
			b.held(b.createIn(8, "a"), class, providers.CodeGateClosed, time.Second+100*time.Millisecond)
		}
		b.goes(b.createIn(7, "a"))
		b.cloud.during = nil
		require.Len(b.t, b.changes, 1, "it was closed and stays so")
		b.held(b.createIn(7, "a"), class, providers.CodeGateClosed, 5*time.Minute)
		b.pass(5 * time.Minute)
		b.answers("")
		b.goes(b.createIn(8, "a"))
		require.Equal(b.t, providers.GateChange{Account: "acme", Zone: "a", Gate: gate, Open: true, Owner: request(8, "a").Tags}, b.changes[1])
		b.goes(b.createIn(9, "a"))
		require.Empty(b.t, b.closed())
		require.Equal(b.t, []providers.GateState{{Zone: "a", Gate: gate}}, b.State().Gates, "its metric goes to 0")
	})
}

func TestAProberThatDoesNotComeBackLosesTheRole(t *testing.T) {
	eachGate(t, func(b *bench, _ string, class providers.ErrorClass) {
		b.pass(5 * time.Minute)
		require.NoError(b.t, b.Admit(request(7, "a")))
		b.pass(time.Minute - time.Second)
		b.held(b.createIn(8, "a"), class, providers.CodeGateClosed, time.Second)
		b.pass(time.Second)
		require.NoError(b.t, b.Admit(request(8, "a")))
		b.held(b.createIn(7, "a"), class, providers.CodeGateClosed, time.Second)
		b.goes(b.createIn(8, "a"))
		require.Empty(b.t, b.closed())
	})
}

func TestWhatAProbeIsAnswered(t *testing.T) {
	cases := map[providers.ErrorClass]struct {
		why  string
		open bool
	}{
		"":                      {"there is room", true},
		providers.Denied:        {"it isn't about room", true},
		providers.Permanent:     {"it isn't about room", true},
		providers.NotFound:      {"it isn't about room", true},
		providers.Transient:     {"the cloud didn't say", false},
		providers.Ambiguous:     {"the cloud didn't say", false},
		providers.Throttled:     {"the cloud didn't say", false},
		providers.QuotaExceeded: {"another reason is told by another gate", true},
		providers.Capacity:      {"another reason is told by another gate", true},
	}
	eachGate(t, func(_ *bench, gate string, class providers.ErrorClass) {
		for answer, c := range cases {
			if answer == class {
				continue
			}
			b := newBench(t, providers.GuardOptions{})
			b.answers(class)
			b.goes(b.create(1))
			b.pass(5 * time.Minute)
			b.answers(answer)
			b.goes(b.create(7))
			for _, g := range b.State().Gates {
				if g.Gate == gate {
					require.Equal(t, !c.open, g.Closed, "%s after %q: %s", gate, answer, c.why)
				}
			}
			if !c.open {
				b.pass(time.Second)
				b.answers("")
				b.goes(b.create(8)) // the next one may probe at once
				require.Empty(t, b.closed())
			}
		}
	})
}

func TestAnswersToCreatesFromBeforeAGateClosed(t *testing.T) {
	eachGate(t, func(b *bench, _ string, class providers.ErrorClass) {
		b.pass(5 * time.Minute)
		b.goes(b.createIn(7, "a"))
		require.Empty(b.t, b.closed())
		b.cloud.during = func() {
			b.cloud.during = nil
			b.answers(class)
			b.goes(b.createIn(8, "a"))
			b.answers("")
		}
		b.goes(b.createIn(9, "a")) // its yes is older than the no
		require.Len(b.t, b.closed(), 1)
		b.held(b.createIn(9, "a"), class, providers.CodeGateClosed, 5*time.Minute)
	})
}

func TestAGateThatClosesAfterAdmitHoldsTheCreate(t *testing.T) {
	b := newBench(t, providers.GuardOptions{})
	require.NoError(t, b.Admit(request(1, "a")))
	b.answers(providers.Capacity)
	b.goes(b.createIn(2, "a"))
	b.held(b.createIn(1, "a"), providers.Capacity, providers.CodeGateClosed, 5*time.Minute)
	require.Equal(t, 1, b.cloud.calls["create"])
}

func TestAProbeWaitsForItsTurnWithoutTheRole(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 10, Burst: 1}})
	b.answers(providers.Capacity)
	b.goes(b.createIn(1, "a"))
	b.pass(5 * time.Minute)
	b.answers("")
	b.goes(b.createIn(2, "b"))
	b.held(b.createIn(3, "a"), providers.Throttled, providers.CodeRateLimited, 100*time.Millisecond)
	b.held(b.createIn(4, "a"), providers.Throttled, providers.CodeRateLimited, 200*time.Millisecond)
	b.pass(200 * time.Millisecond)
	b.goes(b.createIn(4, "a")) // 3 didn't come, and keeps nobody from probing
	require.Empty(t, b.closed())
}

func TestADeleteLetsTheQuotaBeProbedSoon(t *testing.T) {
	eachGate(t, func(b *bench, gate string, class providers.ErrorClass) {
		b.answers(providers.NotFound)
		b.goes(b.delete(1))
		b.held(b.createIn(2, "a"), class, providers.CodeGateClosed, 5*time.Minute) // that freed nothing
		b.answers("")
		b.goes(b.delete(1))
		if gate == providers.GateCapacity {
			b.held(b.createIn(2, "a"), class, providers.CodeGateClosed, 5*time.Minute+50*time.Millisecond)
			return // a machine of ours more or less is nothing to a zone
		}
		b.held(b.createIn(2, "a"), class, providers.CodeGateClosed, 30*time.Second)
		b.pass(20 * time.Second)
		b.goes(b.delete(2))
		b.held(b.createIn(3, "a"), class, providers.CodeGateClosed, 10*time.Second+50*time.Millisecond)
		b.pass(10 * time.Second)
		b.answers(class)
		b.goes(b.createIn(3, "a"))
		b.held(b.createIn(4, "a"), class, providers.CodeGateClosed, 5*time.Minute)
	})
}
