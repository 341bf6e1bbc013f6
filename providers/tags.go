// SPDX-License-Identifier: Apache-2.0

package providers

// ManagedBy is the value of Tags.ManagedBy on everything the operator makes.
const ManagedBy = "proxy-operator"

// Tags are the record that an instance carries, written in the create call: what runs is told by the cloud, not by the
// Proxy object. A provider stores every field (as labels, tags or metadata, encoded as its cloud allows) and gives back
// exactly what it stored. The names in JSON are for ever: other versions read what this one wrote.
type Tags struct {
	ManagedBy    string `json:"managedBy"`    // always ManagedBy
	Installation string `json:"installation"` // InstallationID
	OwnerUID     string `json:"ownerUID"`     // the Proxy's UID
	Namespace    string `json:"namespace"`    // the Proxy's
	Name         string `json:"name"`         // the Proxy's
	Incarnation  int64  `json:"incarnation"`  // counts the machines of one Proxy, from 1
	SpecHash     string `json:"specHash"`     // VERSION:HASH of what the machine was made from
}

// Complete reports whether no field that every instance must carry is missing.
func (t Tags) Complete() bool {
	return t.ManagedBy == ManagedBy && t.Installation != "" && t.OwnerUID != "" && t.Namespace != "" &&
		t.Name != "" && t.Incarnation > 0 && t.SpecHash != ""
}

// Selector picks instances by tag. Installation is always set; a field that is empty matches anything.
type Selector struct {
	Installation string
	OwnerUID     string
}

// Matches reports whether an instance with tags t is picked. Machines that don't say they are ours never are.
func (s Selector) Matches(t Tags) bool {
	return t.ManagedBy == ManagedBy && s.Installation != "" && t.Installation == s.Installation &&
		(s.OwnerUID == "" || s.OwnerUID == t.OwnerUID)
}
