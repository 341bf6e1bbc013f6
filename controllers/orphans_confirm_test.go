// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestManyOrphansWaitForAPerson(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	living := b.owned()
	refs := b.plantMany(3)
	b.swept(2)
	require.Equal(t, 3, b.left(refs...))
	require.Equal(t, 3, b.gauge(orphanHeld))
	require.Zero(t, b.gauge(orphanProven))
	n := b.note()
	require.NotNil(t, n)
	require.Equal(t, "3", n.Data["found"])
	require.Equal(t, "4", n.Data["total"])
	for _, r := range refs {
		require.Contains(t, n.Data["instances"], r.String()+" "+b.ns+"/a gone-")
	}
	b.swept(2)
	require.Equal(t, n.ResourceVersion, b.note().ResourceVersion, "written when it changes")
	require.Equal(t, 1, b.told(v1alpha1.ReasonOrphanSweepStopped), "told once")
	require.Equal(t, 1, b.logged("too many instances have no Proxy", `"found"=3`, `"total"=4`))
	require.Equal(t, 3, b.results(sweepStopped))

	b.confirm()
	b.swept(1)
	require.Zero(t, b.left(refs...))
	require.Nil(t, b.note(), "a confirmation is used once")
	require.Equal(t, 3, b.told(v1alpha1.ReasonOrphanDeleted))
	require.Equal(t, 1, b.left(living...))
}

func TestASetThatGrewWaitsAgain(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	refs := b.plantMany(3)
	b.swept(2)
	first := b.note().Data["sweep"]
	b.confirm()
	refs = append(refs, b.plantMany(1)...)
	b.swept(1)
	require.Zero(t, b.left(refs[:3]...), "the newcomer is seen for the first time: the three are what was confirmed")
	require.Equal(t, 1, b.left(refs[3:]...))
	b.swept(1)
	require.Zero(t, b.left(refs...))

	refs = b.plantMany(3)
	b.swept(2)
	refs = append(refs, b.plantMany(2)...)
	b.swept(1)
	b.confirm() // of the three
	b.later(sweepEvery)
	require.NoError(t, b.c.Sweep(t.Context(), "cloud"))
	require.Equal(t, 5, b.left(refs...))
	require.NotEqual(t, first, b.note().Data["sweep"])
	require.Empty(t, b.note().Data["confirm"], "it was for other instances")
	require.Equal(t, "5", b.note().Data["found"])
	b.confirm()
	b.swept(1)
	require.Zero(t, b.left(refs...))
}

func TestASetThatShrankIsStillConfirmed(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	refs := b.plantMany(5)
	b.swept(2)
	b.confirm()
	require.True(t, b.cloud.Vanish(refs[2]))
	b.swept(1)
	require.Zero(t, b.left(refs...))
	require.Nil(t, b.note())
}

func TestAConfirmationOfAnotherSweepIsNone(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	refs := b.plantMany(3)
	b.swept(2)
	for why, change := range map[string]map[string]string{
		"another id":                   {"confirm": "yes"},
		"a set that isn't the sweep's": {"set": strings.Join(append(setOf(nil), "0000000000000000"), "\n"), "confirm": b.note().Data["sweep"]},
		"no set":                       {"set": "", "confirm": b.note().Data["sweep"]},
	} {
		n := b.note()
		for k, v := range change {
			n.Data[k] = v
		}
		require.NoError(t, b.api.Update(t.Context(), n))
		b.swept(1)
		require.Equal(t, 3, b.left(refs...), why)
	}
	require.NotEmpty(t, b.note().Data["set"], "what was changed is written anew")
	b.confirm()
	b.swept(1)
	require.Zero(t, b.left(refs...))
}

func TestAConfirmationHoldsUntilAllAreTold(t *testing.T) {
	for name, crash := range map[string]bool{"by one process": false, "over a crash": true} {
		t.Run(name, func(t *testing.T) {
			b := newBroom(t, cloud.Pod())
			refs := b.plantMany(6)
			b.swept(2)
			b.confirm()
			deletes := 0
			b.cloud.SetDoor(func(k cloud.Call) cloud.Fault {
				if k.Op == cloud.OpDelete {
					if deletes++; deletes > 2 {
						return cloud.Fault{Class: providers.Throttled}
					}
				}
				return cloud.Fault{}
			})
			b.swept(1)
			require.Equal(t, 4, b.left(refs...))
			require.NotNil(t, b.note())
			b.cloud.SetDoor(nil)
			if crash {
				b.crash()
				b.swept(1)
				require.Equal(t, 4, b.left(refs...))
				require.NotNil(t, b.note(), "seen once by the new process: what was confirmed stays so")
			}
			b.swept(1)
			require.Zero(t, b.left(refs...))
			require.Nil(t, b.note())
			require.Equal(t, 6, b.told(v1alpha1.ReasonOrphanDeleted))
		})
	}
}

func TestANoteGoesWhenThereIsNothingToConfirmAnyMore(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	refs := b.plantMany(3)
	b.swept(2)
	require.NotNil(t, b.note())
	for _, r := range refs {
		require.True(t, b.cloud.Vanish(r))
	}
	b.swept(1)
	require.Nil(t, b.note())
	require.Zero(t, b.gauge(orphanHeld))
}

func TestTheSameSetIsToldOfAgainWhenItComesBack(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	b.plantMany(3)
	b.swept(2)
	b.c.Busy = func(string) bool { return true }
	b.swept(1)
	require.Nil(t, b.note())
	b.c.Busy = nil
	b.swept(2)
	require.NotNil(t, b.note())
	require.Equal(t, 2, b.told(v1alpha1.ReasonOrphanSweepStopped))
}

func TestWithoutANamespaceOfItsOwnNobodyCanConfirm(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	b.c.Namespace = ""
	refs := b.plantMany(3)
	b.swept(4)
	require.Equal(t, 3, b.left(refs...))
	require.Equal(t, 1, b.logged("too many instances", "--operator-namespace"), "said once")
	require.Equal(t, 3, b.results(sweepStopped))
}

func TestALongListIsCutAndConfirmedWhole(t *testing.T) {
	b := newBroom(t, cloud.Pod())
	refs := b.plantMany(130)
	b.swept(2)
	lines := strings.Split(b.note().Data["instances"], "\n")
	require.Len(t, lines, 101)
	require.Equal(t, fmt.Sprintf("and %d more", 30), lines[100])
	b.confirm()
	b.swept(1)
	require.Zero(t, b.left(refs...))
}

func TestWhatIsOnItsWayOutNeedsNoConfirmation(t *testing.T) {
	p := cloud.Pod()
	p.Leave = 24 * time.Hour
	b := newBroom(t, p)
	refs := b.plantMany(3)
	b.swept(2)
	b.confirm()
	b.swept(2)
	require.Zero(t, b.left(refs...))
	require.Equal(t, 6, b.count(cloud.OpDelete), "told again for as long as they are listed")
	b.crash()
	b.swept(2)
	require.Zero(t, b.results(sweepStopped), "the new process doesn't know who told them, and sees that they go")
	require.Nil(t, b.note())
}
