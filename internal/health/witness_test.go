// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestControl(t *testing.T) {
	c := newCore()
	w := &witness{}
	require.Equal(t, noControl, w.control(), "never tried")
	require.True(t, w.wanted(start, false), "never tried: it can tell")

	c.controlled(w, targets(probe.ReasonTargetUnreachable), start)
	require.Equal(t, noControl, w.control(), "a control that never succeeded is none: there may be no direct way")
	require.False(t, w.wanted(start.Add(time.Second), false), "doubts don't repeat what never worked")
	require.True(t, w.wanted(start.Add(time.Second), true), "the plan does")

	c.controlled(w, gotThrough(), start.Add(time.Minute))
	require.Equal(t, controlUp, w.control())
	require.False(t, w.wanted(start.Add(time.Minute), false), "nothing has begun since")
	require.True(t, w.wanted(start.Add(2*time.Minute), false))

	c.controlled(w, targets(probe.ReasonTargetUnreachable), start.Add(2*time.Minute))
	require.Equal(t, controlDown, w.control())
	require.False(t, w.wanted(start.Add(2*time.Minute+downLasts), false), "an outage isn't over within the second")
	require.True(t, w.wanted(start.Add(2*time.Minute+2*downLasts), false))
}

func TestVotes(t *testing.T) {
	w := &witness{}
	w.vote(vote{who: 1, pool: "a", at: start, how: stuck})
	w.vote(vote{who: 2, pool: "a", at: start, how: stuck})
	w.vote(vote{who: 1, pool: "a", at: start.Add(time.Second), how: through})
	require.Len(t, w.votes, 2, "one vote each: who is probed more often has no more to say")
	require.Equal(t, crowd{through: 1, stuck: 1, stuckPools: 2, unreachedPools: 1}, w.crowd(3, "b", start))
	require.Equal(t, crowd{stuck: 1, stuckPools: 1, unreachedPools: 1}, w.crowd(1, "a", start), "one's own vote is no witness")
	require.Equal(t, crowd{through: 1, stuckPools: 1, unreachedPools: 1}, w.crowd(3, "b", start.Add(time.Second)), "what was before doesn't count")

	for i := range uint64(200) {
		w.vote(vote{who: 10 + i, at: start, how: through})
	}
	require.Len(t, w.votes, mostVotes)
	require.EqualValues(t, 209, w.votes[mostVotes-1].who, "the newest stay")
}

func TestCastOf(t *testing.T) {
	require.Equal(t, through, castOf(gotThrough()))
	require.Equal(t, stuck, castOf(targets(probe.ReasonTargetError)))
	require.Equal(t, stuck, castOf(fault(probe.ReasonProxyError)))
	require.Equal(t, unreached, castOf(fault(probe.ReasonConnectTimeout)))
	require.Equal(t, refused, castOf(fault(probe.ReasonAuthFailed)))
}
