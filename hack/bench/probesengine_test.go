// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLatenessIsThatOfTheRoundsWatched(t *testing.T) {
	late := func(counts ...float64) reading {
		var s reading
		for i, seconds := range []float64{0.1, 0.25, 0.5, math.Inf(1)} {
			s.late = append(s.late, bucket{seconds, counts[i]})
		}
		return s
	}
	cases := map[string]struct {
		why           string
		before, after reading
		quantile      float64
		want          float64
	}{
		"within a bucket rounds are spread evenly": {
			why: "50 of 100 are half of the first bucket", before: late(0, 0, 0, 0), after: late(100, 100, 100, 100), quantile: 0.5, want: 0.05,
		},
		"exactly 99 of 100 in time are enough": {
			why: "the target is a bucket's bound", before: late(0, 0, 0, 0), after: late(90, 99, 100, 100), quantile: 0.99, want: 0.25,
		},
		"one less isn't": {
			why: "the second of the two that are late counts", before: late(0, 0, 0, 0), after: late(90, 98, 100, 100), quantile: 0.99, want: 0.375,
		},
		"what came before doesn't count": {
			why: "the start was late, the rest wasn't", before: late(0, 0, 0, 50), after: late(100, 100, 100, 150), quantile: 0.99, want: 0.099,
		},
		"an empty bucket is passed over": {
			why: "nothing lies in it", before: late(0, 0, 0, 0), after: late(0, 0, 10, 10), quantile: 0.5, want: 0.375,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.InDelta(t, c.want, c.after.since(c.before).lateness(c.quantile), 1e-9, c.why)
		})
	}
	require.True(t, math.IsInf(late(0, 0, 0, 0).lateness(0.99), 1), "an engine that does nothing misses the target")
	require.True(t, math.IsInf(late(0, 0, 0, 10).lateness(0.99), 1), "later than the last bucket can't miss the target unseen")
}
