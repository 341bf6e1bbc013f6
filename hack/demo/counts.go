// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// stage is how far the create of a machine has come.
func stage(m operator.Machine) string {
	switch {
	case m.PID != 0:
		return fmt.Sprintf("process %d", m.PID)
	case m.Owner() != "":
		return "record, no process"
	default:
		return "folder, no record"
	}
}

// count is what the disk and the system's process table have for one Proxy.
type count struct {
	machines  int
	processes int
	id        string // the providerID of the last machine
}

// countByOwner counts by the UID of the Proxy; what belongs to nobody is under the empty one.
func countByOwner(all, running []operator.Machine) map[string]count {
	counts := map[string]count{}
	for _, m := range all {
		c := counts[m.Owner()]
		c.machines++
		c.id = m.ProviderID()
		counts[m.Owner()] = c
	}
	for _, m := range running {
		c := counts[m.Owner()]
		c.processes++
		counts[m.Owner()] = c
	}
	return counts
}
