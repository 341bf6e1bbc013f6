// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManyOrphansWaitForAPerson: none of 30 is deleted unless somebody agrees, and then all are.
func TestManyOrphansWaitForAPerson(t *testing.T) {
	lab, err := NewLab()
	require.NoError(t, err)
	run := func(text string) Result {
		p, err := ParsePlan(text)
		require.NoError(t, err)
		return lab.Run(p, nil, true)
	}
	deletes := func(r Result) int { return strings.Count(r.Trace, " delete sweep ") }

	agreed := run("gce,orphans@45:30")
	require.Nil(t, agreed.Failure, agreed.Trace)
	require.Equal(t, leftPlanted, agreed.Left)
	require.GreaterOrEqual(t, deletes(agreed), 30)

	nobody := run("gce,orphans@45:30,confirm@9999") // before there is anything to agree to
	require.NotNil(t, nobody.Failure, "the law notices that they stay")
	require.Equal(t, "L13", nobody.Failure.Law)
	require.Zero(t, deletes(nobody), nobody.Trace)
}

// TestWhatWasBeyondIsCollected runs plans in which the loop alone leaves a machine behind.
func TestWhatWasBeyondIsCollected(t *testing.T) {
	cases := map[string]struct{ why, plan, left string }{
		"wiped, then deleted":                  {"the finalizer isn't back yet", "gce,wipe@45,delete@46", beyondUnheld},
		"Get and list both wrong":              {"killed before status names it, and for 5 min no read shows it", "pod,delete@7,crash-after@5,blind@8:300", leftBlind},
		"Get and list both wrong, on GCE":      {"the same, where names are unique", "gce,delete@7,crash-before@6,blind@8:300", leftBlind},
		"let go by a user":                     {"the annotation says so, and the mode is Delete", "pod,abandon@21,delete@24", leftLetGo},
		"what is left of a machine that ended": {"a disk, an address", "gce,leftover@45:1", leftPlanted},
	}
	lab, err := NewLab()
	require.NoError(t, err)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := ParsePlan(c.plan)
			require.NoError(t, err)
			r := lab.Run(p, nil, true)
			require.Nil(t, r.Failure, "%s: %+v\n%s", c.why, r.Failure, r.Trace)
			require.True(t, r.Reached)
			require.Equal(t, c.left, r.Left, r.Trace)
			require.Empty(t, r.Beyond)
		})
	}
}
