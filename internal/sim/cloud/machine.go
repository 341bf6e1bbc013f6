// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// machine is an instance with its whole life, also the part to come that is settled already (it will be Running, it
// will be gone). So the past can be looked up for a read that lags, and time needs no events.
type machine struct {
	serial              uint64
	account, zone, name string
	path                string
	tags                providers.Tags
	born                time.Time
	life                []change // in order of time
}

// change is what a machine is from a moment on.
type change struct {
	at    time.Time
	state providers.InstanceState
	ip    string
	gone  bool
}

// at returns what the machine was at t; false: it wasn't there.
func (m *machine) at(t time.Time) (change, bool) {
	for i := len(m.life) - 1; i >= 0; i-- {
		if !m.life[i].at.After(t) {
			return m.life[i], !m.life[i].gone
		}
	}
	return change{}, false
}

// become changes the machine's life from next.at on: what was to come after that is off.
func (m *machine) become(next ...change) {
	for len(m.life) > 0 && m.life[len(m.life)-1].at.After(next[0].at) {
		m.life = m.life[:len(m.life)-1]
	}
	m.life = append(m.life, next...)
}

// goneAt returns when the machine goes, or went.
func (m *machine) goneAt() (time.Time, bool) {
	last := m.life[len(m.life)-1]
	return last.at, last.gone
}

// leaving reports whether the machine is within early of being gone at t.
func (m *machine) leaving(t time.Time, early time.Duration) bool {
	gone, ok := m.goneAt()
	return ok && early > 0 && !t.Before(gone.Add(-early))
}

// instance is the machine as the cloud tells of it in state c.
func (m *machine) instance(c change) providers.Instance {
	if c.gone {
		c.state = providers.StateTerminated
	}
	return providers.Instance{
		Ref:  providers.Ref{Account: m.account, Path: m.path},
		Name: m.name, Zone: m.zone, State: c.state, IP: c.ip, Tags: m.tags, CreatedAt: m.born,
	}
}

// address is the machine's first IP. No two machines of one cloud get the same.
func (m *machine) address() string {
	return fmt.Sprintf("10.%d.%d.%d", m.serial>>16&0xff, m.serial>>8&0xff, m.serial&0xff)
}

// path is how an instance is named in a Ref: by its name where names are unique, else by an id that the cloud made.
func (p Profile) path(zone, name string, serial uint64) string {
	id := name
	if !p.Traits.UniqueNames {
		id = fmt.Sprintf("i-%06d", serial)
	}
	if zone == "" {
		return id
	}
	return zone + "/" + id
}
