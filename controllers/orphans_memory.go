// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"github.com/proxy-operator/proxy-operator/providers"
)

// sightings is what the collector remembers of one account between sweeps.
type sightings struct {
	byRef   map[providers.Ref]*sighting
	stopped string // the sweep that people were told of; empty: none
}

// sighting is one instance without an owner.
type sighting struct {
	tags     providers.Tags
	created  time.Time
	first    time.Time // the sweep that first found no owner
	reported bool      // people were told of it
	told     bool      // a delete was accepted; what is still listed is on its way out
	failures int       // deletes that weren't accepted
}

// of reports whether the sighting is of this very machine: another may have got the Ref.
func (s *sighting) of(i providers.Instance) bool {
	return s != nil && s.tags == i.Tags && s.created.Equal(i.CreatedAt)
}

// firstSeen is when the instance was first seen without an owner; zero: never before.
func (m *sightings) firstSeen(i providers.Instance) time.Time {
	if m == nil || !m.byRef[i.Ref].of(i) {
		return time.Time{}
	}
	return m.byRef[i.Ref].first
}

// remember notes what a whole sweep found. An instance that has an owner again, or isn't listed, is forgotten.
func (c *Collector) remember(account string, found []finding, now time.Time) *sightings {
	old := c.memory[account]
	if old == nil {
		old = &sightings{}
	}
	m := &sightings{byRef: map[providers.Ref]*sighting{}, stopped: old.stopped}
	for _, f := range found {
		if f.state == orphanOwned || f.state == orphanForeign {
			continue
		}
		s := old.byRef[f.Ref]
		if !s.of(f.Instance) {
			s = &sighting{tags: f.Tags, created: f.CreatedAt, first: now}
		}
		m.byRef[f.Ref] = s
	}
	if c.memory == nil {
		c.memory = map[string]*sightings{}
	}
	c.memory[account] = m
	return m
}

// leaving reports whether the orphan needs nobody's decision any more: its delete was accepted, by this process or before.
func (m *sightings) leaving(f finding) bool {
	return f.State == providers.StateDeleting || m.byRef[f.Ref].told
}

// waiting are the orphans that aren't on their way out.
func waiting(found []finding, m *sightings) []finding {
	var out []finding
	for _, f := range found {
		if f.state == orphanProven && !m.leaving(f) {
			out = append(out, f)
		}
	}
	return out
}

func tallyOf(mode providers.OrphanMode, found []finding, m *sightings) tally {
	t := tally{Mode: mode, Orphans: len(waiting(found, m))}
	for _, f := range found {
		if f.state != orphanForeign {
			t.Total++
		}
		if f.state == orphanSighted {
			t.Sighted++
		}
	}
	return t
}
