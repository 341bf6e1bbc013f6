// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatCantBeMetIsTold runs plans that leave a machine that nobody can know of. Each is told by its name, and not as
// failing; the names are in docs/adr/0012-simulation.md.
func TestWhatCantBeMetIsTold(t *testing.T) {
	cases := map[string]struct{ why, plan, name string }{
		"deleted while the API is down": {
			"the finalizer can't be put back before the delete", "gce,wipe@37,delete@49,api-down@12:60", beyondUnheld},
		"deleted while a create is under way that the next clock counts as settled": {
			"the old leader's clock is 5 min behind, and its create lands when the Proxy is gone",
			"pod,edit@20:3129,delete@83,clock@21:-300,old-leader@82:5", beyondClocks},
	}
	lab, err := NewLab()
	require.NoError(t, err)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := ParsePlan(c.plan)
			require.NoError(t, err)
			r := lab.Run(p, nil, true)
			require.Nil(t, r.Failure, "%s: %+v\n%s", c.why, r.Failure, r.Trace)
			require.Empty(t, r.Beyond)
			require.Equal(t, c.name, r.Left, r.Trace)
		})
	}
}
