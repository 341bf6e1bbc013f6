// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestNothingGoesOutBeforeTheCloudsWaitEnds(t *testing.T) {
	b := newBench(t, providers.GuardOptions{})
	b.cloud.err = &providers.Error{Class: providers.Throttled, RetryAfter: 20 * time.Second}
	b.goes(b.get(1))
	b.answers("")
	b.pass(5 * time.Second)
	b.held(b.get(1), providers.Throttled, providers.CodeBackingOff, 15*time.Second)
	b.held(b.look(), providers.Throttled, providers.CodeBackingOff, 15*time.Second)
	b.held(b.delete(1), providers.Throttled, providers.CodeBackingOff, 15*time.Second)
	b.held(b.create(1), providers.Throttled, providers.CodeBackingOff, 15*time.Second)
	b.held(b.Admit(request(2, "")), providers.Throttled, providers.CodeBackingOff, 15*time.Second+50*time.Millisecond)
	require.Equal(t, 1, b.cloud.calls["get"])
	b.pass(15 * time.Second)
	b.goes(b.get(1))
	require.Empty(t, b.changes, "a pause is no gate")
}

func TestAWaitThatComesAfterAdmitHoldsTheCreate(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 1, Burst: 1}})
	require.NoError(t, b.Admit(request(1, "")))
	b.answers(providers.Throttled)
	b.goes(b.get(1))
	b.answers("")
	b.held(b.create(1), providers.Throttled, providers.CodeBackingOff, time.Second)
	require.Zero(t, b.cloud.calls["create"])
	b.pass(time.Second)
	b.goes(b.create(2))
	b.goes(b.create(1)) // its place was kept
	b.held(b.create(3), providers.Throttled, providers.CodeRateLimited, time.Second)
}

func TestThrottledWithoutAWait(t *testing.T) {
	wait := func(b *bench) time.Duration {
		var e *providers.Error
		require.ErrorAs(b.t, b.get(1), &e)
		require.Equal(b.t, providers.CodeBackingOff, e.Code)
		return e.RetryAfter
	}
	b := newBench(t, providers.GuardOptions{})
	b.answers(providers.Throttled)
	var waits []time.Duration
	for range 9 {
		b.goes(b.get(1))
		waits = append(waits, wait(b))
		b.pass(waits[len(waits)-1])
	}
	s := time.Second
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s}, waits)
	b.answers("")
	b.goes(b.get(1))
	b.pass(s)
	b.answers(providers.Throttled)
	b.goes(b.get(1))
	require.Equal(t, s, wait(b), "an answer ends the row")

	b = newBench(t, providers.GuardOptions{})
	b.answers(providers.Throttled)
	b.cloud.during = func() { // two calls at one time
		b.cloud.during = nil
		b.goes(b.get(2))
	}
	b.goes(b.get(1))
	require.Equal(t, s, wait(b), "answers to calls at one time are one reason to wait")

	b = newBench(t, providers.GuardOptions{})
	b.cloud.err = &providers.Error{Class: providers.Throttled, RetryAfter: 1000 * time.Hour}
	b.goes(b.get(1))
	require.Equal(t, time.Hour, wait(b), "a mistake of the cloud must not last until the next restart")
}

func TestTheCircuitOpens(t *testing.T) {
	fails := func(class providers.ErrorClass, times int) func(*bench) {
		return func(b *bench) {
			b.answers(class)
			for n := range times {
				b.goes(b.create(n))
			}
		}
	}
	cases := map[string]struct {
		why  string
		do   []func(*bench)
		open bool
	}{
		"after five failures":                 {"the cloud is down", []func(*bench){fails(providers.Transient, 5)}, true},
		"after five lost answers":             {"each may have made a machine", []func(*bench){fails(providers.Ambiguous, 5)}, true},
		"not after four":                      {"one Proxy's bad luck", []func(*bench){fails(providers.Transient, 4)}, false},
		"not when an answer comes in between": {"the cloud works", []func(*bench){fails(providers.Transient, 4), fails("", 1), fails(providers.Transient, 4)}, false},
		"not when a refusal comes in between": {"a cloud that refuses works", []func(*bench){fails(providers.Transient, 4), fails(providers.Denied, 1), fails(providers.Transient, 4)}, false},
		"not after refusals":                  {"a cloud that refuses works", []func(*bench){fails(providers.Denied, 20)}, false},
		"not after answers that may change soon": {"a namespace that is being deleted must not stop the others", []func(*bench){func(b *bench) {
			b.cloud.err = &providers.Error{Class: providers.Transient, Answered: true}
			for n := range 20 {
				b.goes(b.create(n))
			}
		}}, false},
		"after five errors without a class":      {"they may hide anything", []func(*bench){func(b *bench) { b.cloud.err = errors.New("bug"); fails5(b) }}, true},
		"after five deadlines":                   {"the cloud hangs", []func(*bench){func(b *bench) { b.cloud.err = context.DeadlineExceeded; fails5(b) }}, true},
		"not when a shutdown cuts the calls off": {"that says nothing about the cloud", []func(*bench){cutOff}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, providers.GuardOptions{})
			for _, do := range c.do {
				do(b)
			}
			require.Equal(t, c.open, b.State().CircuitOpen, c.why)
			if !c.open {
				require.Empty(t, b.changes)
				return
			}
			require.Len(t, b.changes, 1)
			require.Equal(t, providers.GateCircuit, b.changes[0].Gate)
			require.Equal(t, "acme", b.changes[0].Account)
			require.False(t, b.changes[0].Open)
			b.held(b.look(), providers.Throttled, providers.CodeCircuitOpen, 30*time.Second)
			b.held(b.delete(1), providers.Throttled, providers.CodeCircuitOpen, 30*time.Second)
			b.held(b.Admit(request(1, "")), providers.Throttled, providers.CodeCircuitOpen, 30*time.Second)
		})
	}
}

func fails5(b *bench) {
	for n := range 5 {
		b.goes(b.get(n))
	}
}

// cutOff ends calls by the caller's own context.
func cutOff(b *bench) {
	b.answers(providers.Ambiguous)
	for n := range 10 {
		ctx, cancel := context.WithCancel(context.Background())
		b.cloud.during = func() { cancel() }
		_, err := b.Create(ctx, request(n, ""))
		b.goes(err)
	}
}

func TestOneCallProbesTheCircuit(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 100}})
	b.answers(providers.Transient)
	fails5(b)
	var waits []time.Duration
	for range 6 {
		var e *providers.Error
		require.ErrorAs(t, b.look(), &e)
		require.Equal(t, providers.CodeCircuitOpen, e.Code)
		waits = append(waits, e.RetryAfter)
		b.pass(e.RetryAfter - time.Millisecond)
		b.held(b.look(), providers.Throttled, providers.CodeCircuitOpen, time.Millisecond)
		b.pass(time.Millisecond)
		require.NoError(t, b.Admit(request(7, "")), "Admit sends nothing, so it is no probe")
		sent := 0
		b.cloud.during = func() {
			sent++
			b.held(b.get(2), providers.Throttled, providers.CodeCircuitOpen, time.Second)
			b.held(b.create(7), providers.Throttled, providers.CodeCircuitOpen, time.Second)
		}
		b.goes(b.get(1))
		require.Equal(t, 1, sent)
		b.cloud.during = nil
	}
	s := time.Second
	require.Equal(t, []time.Duration{30 * s, 60 * s, 120 * s, 240 * s, 300 * s, 300 * s}, waits)
	require.Len(t, b.changes, 1, "it was never closed")
	b.pass(300 * s)
	ctx, cancel := context.WithCancel(context.Background())
	b.cloud.during = func() { cancel() }
	_, err := b.Get(ctx, refOf(1))
	b.goes(err)
	require.True(t, b.State().CircuitOpen, "a probe that was cut off says nothing,")
	b.cloud.during = nil
	b.answers(providers.NotFound)
	b.goes(b.get(1)) // and the next one may go at once
	require.False(t, b.State().CircuitOpen)
	require.Len(t, b.changes, 2)
	require.Equal(t, providers.GateChange{Account: "acme", Gate: providers.GateCircuit, Open: true}, b.changes[1])
	b.answers(providers.Transient)
	fails5(b)
	b.held(b.look(), providers.Throttled, providers.CodeCircuitOpen, 30*s)
}

func TestAnswersToCallsFromBeforeTheCircuitOpenedChangeNothing(t *testing.T) {
	b := newBench(t, providers.GuardOptions{})
	b.cloud.during = func() {
		b.cloud.during = nil
		b.answers(providers.Transient)
		fails5(b)
		b.answers("")
	}
	b.goes(b.get(1))
	require.True(t, b.State().CircuitOpen)
	b.held(b.get(1), providers.Throttled, providers.CodeCircuitOpen, 30*time.Second)
}

func TestCreatesThatWaitForOneMomentComeOneByOne(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 10}})
	b.answers(providers.Transient)
	fails5(b)
	for n := range 2000 {
		b.held(b.Admit(request(n, "")), providers.Throttled, providers.CodeCircuitOpen,
			30*time.Second+min(time.Duration(n)*100*time.Millisecond, time.Minute))
	}
	b.held(b.delete(1), providers.Throttled, providers.CodeCircuitOpen, 30*time.Second)
}
