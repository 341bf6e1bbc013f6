// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

var planFlag = flag.String("plan", "do,edit@40:3129,crash-after@4", "the plan that TestPlan runs")

// TestPlan runs one plan and prints it step by step: go test ./internal/sim -run Plan -v -plan 'do,delete@7,crash-after@9'.
func TestPlan(t *testing.T) {
	p, err := ParsePlan(*planFlag)
	require.NoError(t, err)
	require.Equal(t, *planFlag, p.String())
	lab, err := NewLab()
	require.NoError(t, err)
	r := lab.Run(p, nil, true)
	t.Log("\n" + r.Trace)
	require.Nil(t, r.Failure, "%+v", r.Failure)
	require.True(t, r.Reached, "a user's act or a fault never came")
	require.Equal(t, r.Hash, lab.Run(p, nil, false).Hash, "equal plans must give equal traces")
}

func BenchmarkPlan(b *testing.B) {
	p, err := ParsePlan("gce,edit@40:3129,crash-after@4")
	require.NoError(b, err)
	lab, err := NewLab()
	require.NoError(b, err)
	for b.Loop() {
		require.Nil(b, lab.Run(p, nil, false).Failure)
	}
}
