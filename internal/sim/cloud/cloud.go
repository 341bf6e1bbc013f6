// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
)

// Cloud is one model cloud with all its accounts. It may be used from several goroutines; its behaviour is a function of
// the seed, the clock and the order of the calls.
type Cloud struct {
	profile Profile
	clock   clock.PassiveClock
	seed    uint64

	mu       sync.Mutex // not held while the door or a Fault's After runs: they may look at the cloud, and panic
	door     Door
	machines []*machine // in the order in which they were made
	landings []landing
	tokens   map[string]token
	calls    []Call
	opCalls  map[Op]int
	deletes  map[string]int // accepted, by owner
	down     providers.ErrorClass
	quota    int // instances in one account; negative: no limit
	full     map[string]bool
	serial   uint64 // counts machines
	coins    uint64 // counts chances
	requests uint64 // counts request ids
}

// token is a create that the cloud remembers.
type token struct {
	at time.Time
	m  *machine
}

// landing is a mutation that was sent and takes effect later.
type landing struct {
	at  time.Time
	req *providers.CreateRequest // nil: a delete
	do  func(at time.Time)
}

// New returns an empty cloud.
func New(p Profile, clk clock.PassiveClock, seed uint64) *Cloud {
	return &Cloud{
		profile: p, clock: clk, seed: seed, quota: -1,
		tokens: map[string]token{}, opCalls: map[Op]int{}, deletes: map[string]int{}, full: map[string]bool{},
	}
}

// Profile returns what kind of cloud it is.
func (c *Cloud) Profile() Profile { return c.profile }

// Account returns a provider of the named account. Two of one account are like two processes of the operator: they have
// nothing in common but the cloud.
func (c *Cloud) Account(name string) providers.Provider { return account{cloud: c, name: name} }

// now returns the time, after all that was under way until then has taken effect. The caller holds mu.
func (c *Cloud) now() time.Time {
	now := c.clock.Now()
	for len(c.landings) > 0 && !c.landings[0].at.After(now) {
		l := c.landings[0]
		c.landings = c.landings[1:]
		l.do(l.at)
	}
	return now
}

// later lets do take effect at the given time. The caller holds mu.
func (c *Cloud) later(l landing) {
	c.landings = append(c.landings, l)
	slices.SortStableFunc(c.landings, func(a, b landing) int { return a.at.Compare(b.at) })
}

// create makes the machine of req at the given time, or finds the one that answers its key. The caller holds mu.
func (c *Cloud) create(at time.Time, acct string, req providers.CreateRequest, f Fault) (providers.Instance, error) {
	if err := c.check(req); err != nil {
		return providers.Instance{}, err
	}
	if m := c.remembered(at, acct, req.Name); m != nil {
		return m.seen(at), nil
	}
	if m := c.holder(at, acct, req.Key.Zone, req.Name); m != nil {
		return c.repeat(at, m, req)
	}
	if err := c.room(at, acct, req.Key.Zone); err != nil {
		return providers.Instance{}, err
	}
	m := c.make(at, acct, req.Key.Zone, req.Name, req.Tags)
	if f.VanishAfter > 0 {
		m.become(change{at: at.Add(f.VanishAfter), state: providers.StateTerminated, gone: true})
	}
	if c.profile.Traits.CreateToken {
		c.tokens[acct+"/"+req.Name] = token{at: at, m: m}
	}
	return m.seen(at), nil
}

// check refuses what no cloud would take.
func (c *Cloud) check(req providers.CreateRequest) error {
	if req.Name == "" || req.Name != req.Key.Name() || !req.Tags.Complete() {
		return &providers.Error{
			Class: providers.Permanent, Op: string(OpCreate), Code: "InvalidRequest",
			Err: fmt.Errorf("name %q must be that of the key, and the tags complete: %+v", req.Name, req.Tags),
		}
	}
	return c.checkZone(req)
}

func (c *Cloud) checkZone(req providers.CreateRequest) error {
	if c.hasZone(req.Key.Zone) {
		return nil
	}
	return providers.Unsupported("spec.location.zones", "write zones that the account has")
}

func (c *Cloud) hasZone(zone string) bool {
	if len(c.profile.Zones) == 0 {
		return zone == ""
	}
	return slices.Contains(c.profile.Zones, zone)
}

// remembered returns the machine of a create token, which may be long gone.
func (c *Cloud) remembered(at time.Time, acct, name string) *machine {
	if t, ok := c.tokens[acct+"/"+name]; ok && at.Sub(t.at) < c.profile.Traits.TokenTTL {
		return t.m
	}
	return nil
}

// holder returns the machine that holds a name where names are unique.
func (c *Cloud) holder(at time.Time, acct, zone, name string) *machine {
	if !c.profile.Traits.UniqueNames {
		return nil
	}
	for _, m := range c.machines {
		if m.account == acct && m.zone == zone && m.name == name {
			if _, ok := m.at(at); ok {
				return m
			}
		}
	}
	return nil
}

// repeat answers a create whose name is held.
func (c *Cloud) repeat(at time.Time, m *machine, req providers.CreateRequest) (providers.Instance, error) {
	t := req.Tags
	if m.tags.Installation != t.Installation || m.tags.OwnerUID != t.OwnerUID || m.tags.Incarnation != t.Incarnation {
		return providers.Instance{}, providers.Conflict(string(OpCreate), req.Name)
	}
	if m.leaving(at, c.profile.EarlyNotFound) {
		return providers.Instance{}, &providers.Error{
			Class: providers.Transient, Op: string(OpCreate), Code: "NameHeld",
			Err: fmt.Errorf("name %s is held by an instance that is going away", req.Name),
		}
	}
	return m.seen(at), nil
}

// room refuses what doesn't fit in.
func (c *Cloud) room(at time.Time, acct, zone string) error {
	if c.full[zone] {
		return c.refusal(OpCreate, providers.Capacity, 0)
	}
	if c.quota >= 0 && len(c.living(at, acct)) >= c.quota {
		return c.refusal(OpCreate, providers.QuotaExceeded, 0)
	}
	return nil
}

func (c *Cloud) living(at time.Time, acct string) []*machine {
	var out []*machine
	for _, m := range c.machines {
		if _, ok := m.at(at); ok && m.account == acct {
			out = append(out, m)
		}
	}
	return out
}

func (c *Cloud) make(at time.Time, acct, zone, name string, tags providers.Tags) *machine {
	c.serial++
	m := &machine{
		serial: c.serial, account: acct, zone: zone, name: name, tags: tags, born: at,
		path: c.profile.path(zone, name, c.serial),
	}
	m.life = []change{
		{at: at, state: providers.StateProvisioning},
		{at: at.Add(c.profile.Boot), state: providers.StateRunning, ip: m.address()},
	}
	c.machines = append(c.machines, m)
	return m
}

// seen is the machine as it is, without lag.
func (m *machine) seen(at time.Time) providers.Instance {
	now, _ := m.at(at)
	return m.instance(now)
}

// find returns the machine at ref as of t.
func (c *Cloud) find(t time.Time, acct, path string) (*machine, change, bool) {
	for i := len(c.machines) - 1; i >= 0; i-- {
		if m := c.machines[i]; m.account == acct && m.path == path {
			if is, ok := m.at(t); ok {
				return m, is, true
			}
		}
	}
	return nil, change{}, false
}

// get reads one instance, as far behind as the profile says. The caller holds mu.
func (c *Cloud) get(now time.Time, acct string, ref providers.Ref) (providers.Instance, error) {
	view := now.Add(-c.behind(c.profile.GetLag))
	m, is, ok := c.find(view, acct, ref.Path)
	if !ok || m.leaving(view, c.profile.EarlyNotFound) {
		return providers.Instance{}, providers.Gone(string(OpGet), ref)
	}
	return m.instance(is), nil
}

// remove begins an instance's way out. It acts on the truth, not on a view of it. The caller holds mu.
func (c *Cloud) remove(at time.Time, acct string, ref providers.Ref) error {
	m, is, ok := c.find(at, acct, ref.Path)
	if !ok {
		return providers.Gone(string(OpDelete), ref)
	}
	if is.state == providers.StateDeleting {
		return nil
	}
	c.deletes[m.tags.OwnerUID]++
	m.become(
		change{at: at, state: providers.StateDeleting, ip: is.ip},
		change{at: at.Add(c.profile.Leave), state: providers.StateTerminated, gone: true},
	)
	return nil
}

// list reads all pages in an order of the cloud's own. The caller holds mu.
func (c *Cloud) list(now time.Time, acct string, sel providers.Selector, f Fault) ([]providers.Instance, error) {
	view := now.Add(-c.behind(c.profile.ListLag))
	var found []*machine
	for _, m := range c.living(view, acct) {
		if sel.Matches(m.tags) {
			found = append(found, m)
		}
	}
	c.coins++
	slices.SortFunc(found, func(a, b *machine) int {
		return cmp.Compare(mix(c.seed+c.coins, a.serial), mix(c.seed+c.coins, b.serial))
	})
	out := []providers.Instance{}
	for i, page := 0, 1; i == 0 || i < len(found); i, page = i+c.profile.PageSize, page+1 {
		if page == f.FailPage {
			return nil, c.refusal(OpList, providers.Transient, 0)
		}
		if page == f.DropPage || f.DropPage == AllPages {
			continue
		}
		for _, m := range found[i:min(i+c.profile.PageSize, len(found))] {
			out = append(out, m.seen(view))
		}
	}
	return out, nil
}

// behind returns how far behind the truth the next read is.
func (c *Cloud) behind(lag time.Duration) time.Duration {
	if !c.profile.Flaps || lag == 0 {
		return lag
	}
	c.coins++
	if mix(c.seed, c.coins)&1 == 0 {
		return 0
	}
	return lag
}

// mix is splitmix64: the cloud's only chance.
func mix(seed, n uint64) uint64 {
	x := seed + (n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
