// SPDX-License-Identifier: Apache-2.0

package providers

// Limits bound what the operator asks of one account. The zero value has the defaults of the guards and no bound on
// machines.
type Limits struct {
	// CallsPerSecond is how many requests a second the account may get, of reads and of changes each; 0: the default.
	CallsPerSecond float64
	// Burst is how many may come at once after a pause; 0: as many as in two seconds.
	Burst int
	// MaxInstances is how many machines of this installation the account may hold, by the cloud's own list; 0: no bound.
	MaxInstances int
}

// OrphanMode is what the collector does about a machine of ours that no Proxy owns.
type OrphanMode string

// The modes of the collector.
const (
	OrphansOff    OrphanMode = "Off"    // not looked for
	OrphansReport OrphanMode = "Report" // told of, by Event, metric and log
	OrphansDelete OrphanMode = "Delete" // deleted, under the conditions of docs/operations.md
)

// OrphanModes lists every mode, for messages and tests.
func OrphanModes() []OrphanMode { return []OrphanMode{OrphansOff, OrphansReport, OrphansDelete} }
