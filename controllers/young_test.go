// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// TestMachinesThatAreBannedAgainAndAgainBurnNoMoney: each works for ten minutes, and never again.
func TestMachinesThatAreBannedAgainAndAgainBurnNoMoney(t *testing.T) {
	w, d := probed(t, cloud.Pod())
	w.create("px")
	uid := string(w.get("px").UID)
	lives := func(each, during time.Duration) {
		since := map[int64]time.Time{} // when a machine began to work
		for end := w.clock.Now().Add(during); w.clock.Now().Before(end); {
			_, err := w.tick("px")
			require.NoError(t, err)
			p := w.get("px")
			if !isReady(p) {
				continue
			}
			n := p.Status.Instance.Incarnation
			if since[n].IsZero() {
				since[n] = w.clock.Now()
			}
			if w.clock.Since(since[n]) > each {
				d.falls(p, probe.ReasonTimeout)
			}
		}
	}
	lives(10*time.Minute, 6*time.Hour)
	require.InDelta(t, 8, w.cloud.Creates(uid), 1, "12, 14, 18, 26, 42, and then 70 minutes each, not 30 machines")
	require.GreaterOrEqual(t, readIntent(w.get("px")).Boots, 6)
	lives(2*time.Hour, 12*time.Hour)
	require.LessOrEqual(t, readIntent(w.get("px")).Boots, 1, "machines that work for longer begin anew")
}
