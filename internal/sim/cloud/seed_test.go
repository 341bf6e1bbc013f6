// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// TestSameSeedSameCloud plays the same pseudo-random hour twice.
func TestSameSeedSameCloud(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			first := trace(t, p, 7)
			for range 3 {
				require.Equal(t, first, trace(t, p, 7))
			}
			require.NotEqual(t, first, trace(t, p, 8), "the seed must matter")
		})
	}
}

// chance is one of the numbers below limit.
func chance(seed, n uint64, limit int64) time.Duration {
	return time.Duration(int64(mix(seed, n)>>1) % limit) //nolint:gosec // G115: without its lowest bit it fits
}

func trace(t *testing.T, p Profile, seed uint64) string {
	t.Helper()
	s := begin(t, p, seed)
	var out strings.Builder
	var reqs []providers.CreateRequest
	for n := range uint64(300) {
		switch mix(99, n) % 7 {
		case 0:
			reqs = append(reqs, s.request())
			s.next(OpCreate, Fault{Late: chance(98, n, 2) * 40 * time.Second})
			i, err := s.p.Create(t.Context(), reqs[len(reqs)-1])
			fmt.Fprintf(&out, "%+v %v\n", i, err)
		case 1, 2:
			for _, i := range s.list() {
				fmt.Fprintf(&out, "%+v\n", i)
			}
		case 3:
			if all := s.All(); len(all) > 5 {
				fmt.Fprintln(&out, s.p.Delete(t.Context(), all[mix(97, n)%5].Ref))
			}
		case 4:
			for _, i := range s.All() {
				class, state := s.gets(i.Ref)
				fmt.Fprintln(&out, class, state)
			}
		default:
			s.clk.Step(chance(96, n, 9) * time.Second)
		}
	}
	fmt.Fprintf(&out, "%+v", s.Calls())
	return out.String()
}
