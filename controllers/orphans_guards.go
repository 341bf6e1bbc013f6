// SPDX-License-Identifier: Apache-2.0

package controllers

// The precautions of the orphan collector. Each stands for a way in which such collectors have killed the living.
const (
	GuardCloudFirst         Guard = "list the cloud before the owners"
	GuardLiveOwner          Guard = "ask the API server before an owner is believed gone"
	GuardOwnerError         Guard = "an error of the API server is no owner's absence"
	GuardFailedPage         Guard = "a failed list isn't an empty one"
	GuardOrphanInstallation Guard = "other installations' machines aren't orphans"
	GuardOrphanNamespace    Guard = "machines of namespaces that aren't watched aren't orphans"
	GuardOrphanAge          Guard = "young machines aren't orphans"
	GuardTwoSightings       Guard = "an orphan is seen in two sweeps before it is deleted"
	GuardSweepCap           Guard = "many orphans at once wait for a person"
)

func (c *Collector) off(g Guard) bool { return c.Unguarded[g] }

func (s suspect) off(g Guard) bool { return s.Unguarded[g] }
