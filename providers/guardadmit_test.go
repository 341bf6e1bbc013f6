// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestAdmitKeepsAPlace(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 1, Burst: 1}})
	require.NoError(t, b.Admit(request(1, "")))
	require.Zero(t, b.cloud.calls["create"], "Admit sends nothing")
	require.NoError(t, b.Admit(request(1, "")), "asked again, it is the same place")
	b.held(b.create(2), providers.Throttled, providers.CodeRateLimited, time.Second)
	b.goes(b.create(1))
	b.held(b.create(1), providers.Throttled, providers.CodeRateLimited, 2*time.Second)

	b.pass(time.Minute)
	require.NoError(t, b.Admit(request(3, "")))
	next := request(3, "")
	next.Key.Incarnation = 2
	b.held(b.Admit(next), providers.Throttled, providers.CodeRateLimited, time.Second)
	b.pass(time.Minute)
	b.goes(b.create(4))
	b.held(b.create(3), providers.Throttled, providers.CodeRateLimited, time.Second)
}

// TestAFleetThatWasAdmittedWhileNothingCouldBeWrittenWentAtOnce: each had its token of a minute ago.
func TestAFleetThatWasAdmittedWhileNothingCouldBeWrittenWentAtOnce(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Limits: providers.Limits{CallsPerSecond: 1, Burst: 1}})
	for n := range 12 {
		require.NoError(t, b.Admit(request(n, "")))
		b.pass(5 * time.Second)
	}
	b.goes(b.create(11))
	for n := range 11 {
		b.held(b.create(n), providers.Throttled, providers.CodeRateLimited, time.Duration(n+1)*time.Second)
	}
}

func TestAnAdmittedCreateHasASlotForAWhile(t *testing.T) {
	b := newBench(t, providers.GuardOptions{})
	require.NoError(t, b.Admit(request(1, "")))
	require.NoError(t, b.Admit(request(2, "")))
	b.held(b.get(1), providers.Throttled, providers.CodeBusy, 100*time.Millisecond)
	b.goes(b.create(1))
	b.goes(b.get(2))
	require.NoError(t, b.Admit(request(3, "")))
	b.pass(5 * time.Second)
	b.goes(b.get(3)) // neither came: the write of the intent failed
	b.cloud.during = func() {
		b.cloud.during = func() {
			b.held(b.create(3), providers.Throttled, providers.CodeBusy, 100*time.Millisecond)
		}
		b.goes(b.get(4))
	}
	b.goes(b.get(5))
}
