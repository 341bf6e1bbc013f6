// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

func TestProgressTellsHowLongItHasTaken(t *testing.T) {
	failure := errors.New("compiler on fire")
	cases := map[string]struct {
		live  bool
		err   error
		first string
		end   string
	}{
		"in a log by a line now and then":         {first: "building ...\nbuilding ... 30s\n", end: "building ... 1m0s\nbuilding: done in 1m0s\n"},
		"on a terminal by rewriting one line":     {live: true, first: "\r\033[Kbuilding ...\r\033[Kbuilding ... 30s", end: "\r\033[Kbuilding ... 1m0s\r\033[Kbuilding: done in 1m0s\n"},
		"a failure ends it too, and is handed on": {err: failure, first: "building ...\nbuilding ... 30s\n", end: "building ... 1m0s\nbuilding: given up after 1m0s\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, now := &log{}, testclock.NewFakeClock(time.Unix(0, 0))
			p := &progress{out: out, clock: now, every: 30 * time.Second, live: c.live}
			finish, done := make(chan struct{}), make(chan error, 1)
			go func() { done <- p.during("building", func() error { <-finish; return c.err }) }()

			require.Eventually(t, now.HasWaiters, patience, poll)
			now.Step(30 * time.Second)
			require.Eventually(t, func() bool { return out.String() == c.first }, patience, poll)
			now.Step(30 * time.Second)
			require.Eventually(t, func() bool { return len(out.String()) > len(c.first) }, patience, poll)
			close(finish)
			require.ErrorIs(t, <-done, c.err)
			require.Equal(t, c.first+c.end, out.String())
		})
	}
}
