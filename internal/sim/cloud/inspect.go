// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"slices"

	"github.com/proxy-operator/proxy-operator/providers"
)

// All returns every instance that exists, of all accounts, as it truly is, in the order in which they were made: also
// those that no read shows yet, those on their way out, and foreign ones (without tags).
func (c *Cloud) All() []providers.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	out := make([]providers.Instance, 0, len(c.machines))
	for _, m := range c.machines {
		if is, ok := m.at(now); ok {
			out = append(out, m.instance(is))
		}
	}
	return out
}

// Exists reports whether there is an instance at ref.
func (c *Cloud) Exists(ref providers.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _, ok := c.find(c.now(), ref.Account, ref.Path)
	return ok
}

// InFlight returns the creates that were sent and have not taken effect yet.
func (c *Cloud) InFlight() []providers.CreateRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now()
	var out []providers.CreateRequest
	for _, l := range c.landings {
		if l.req != nil {
			out = append(out, *l.req)
		}
	}
	return out
}

// Calls returns every call so far.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Creates returns how many instances were ever made for an owner.
func (c *Cloud) Creates(ownerUID string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now()
	n := 0
	for _, m := range c.machines {
		if m.tags.OwnerUID == ownerUID {
			n++
		}
	}
	return n
}

// Deletes returns how many of an owner's instances were told to go; a repeated delete counts once.
func (c *Cloud) Deletes(ownerUID string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now()
	return c.deletes[ownerUID]
}

// SetQuota limits the instances of each account; a negative n lifts the limit.
func (c *Cloud) SetQuota(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quota = n
}

// SetFull fills a zone up, or empties it.
func (c *Cloud) SetFull(zone string, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full[zone] = full
}

// SetDown answers every call with class until it is set to "".
func (c *Cloud) SetDown(class providers.ErrorClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = class
}

// PlantForeign makes an instance that isn't ours.
func (c *Cloud) PlantForeign(account, zone, name string) providers.Ref {
	return c.Plant(account, zone, name, providers.Tags{})
}

// Plant makes an instance with any tags past the door, as another program or an earlier bug would.
func (c *Cloud) Plant(account, zone, name string, tags providers.Tags) providers.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.make(c.now(), account, zone, name, tags)
	return providers.Ref{Account: m.account, Path: m.path}
}

// Stop lets the instance at ref stop by itself; false: there is none, or it is on its way out.
func (c *Cloud) Stop(ref providers.Ref) bool {
	return c.end(ref, providers.StateStopped)
}

// Terminate lets the instance at ref end for good, as a preempted one does: it stays on the books until it is deleted.
func (c *Cloud) Terminate(ref providers.Ref) bool {
	return c.end(ref, providers.StateTerminated)
}

// end puts an instance that isn't on its way out in a state from which nothing follows.
func (c *Cloud) end(ref providers.Ref, state providers.InstanceState) bool {
	ended := false
	c.turn(ref, func(m *machine, is change) {
		if ended = is.state != providers.StateDeleting; ended {
			is.state = state
			m.become(is)
		}
	})
	return ended
}

// Vanish takes the instance at ref away, at once and without a word.
func (c *Cloud) Vanish(ref providers.Ref) bool {
	return c.turn(ref, func(m *machine, is change) {
		is.state, is.gone = providers.StateTerminated, true
		m.become(is)
	})
}

// SetIP gives the instance at ref another address; it may be that of a dead one.
func (c *Cloud) SetIP(ref providers.Ref, ip string) bool {
	return c.turn(ref, func(m *machine, is change) {
		var next []change
		for _, l := range m.life {
			if l.at.After(is.at) {
				l.ip = ip
				next = append(next, l)
			}
		}
		is.ip = ip
		m.become(append([]change{is}, next...)...)
	})
}

// turn changes the life of the instance at ref from now on.
func (c *Cloud) turn(ref providers.Ref, f func(*machine, change)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	m, is, ok := c.find(now, ref.Account, ref.Path)
	if !ok {
		return false
	}
	is.at = now
	f(m, is)
	return true
}
