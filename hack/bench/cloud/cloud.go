// SPDX-License-Identifier: Apache-2.0

// Package cloud is a cloud for measuring: an HTTP API on loopback with zones, pages and quotas, in the memory of the
// program that measures, and a provider that speaks to it from the manager's process. It outlives the manager, and counts
// what it is asked for. Names are unique in it and reads are exact; clouds that lag and lose answers are in internal/sim.
package cloud

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
)

// Options say what the cloud is like.
type Options struct {
	Zones    []string
	PageSize int
	// Boot is how long a machine takes to run.
	Boot time.Duration
	// Quotas bound the calls of accounts; one that isn't listed may call as often as it likes.
	Quotas map[string]Quota
	Clock  clock.PassiveClock
}

// Quota bounds the calls of one account: of reads, and of changes. What goes beyond is answered with 429.
type Quota struct {
	PerSecond float64
	Burst     float64
}

// Calls is what an account was asked for. A list of several pages in several zones is as many calls.
type Calls struct {
	Lists, Gets, Creates, Deletes, Rejected int
}

// Changes counts those that change something, whether or not they were let in.
func (c Calls) Changes() int { return c.Creates + c.Deletes }

// Since is what came after an earlier count.
func (c Calls) Since(earlier Calls) Calls {
	return Calls{
		c.Lists - earlier.Lists, c.Gets - earlier.Gets, c.Creates - earlier.Creates, c.Deletes - earlier.Deletes, c.Rejected - earlier.Rejected,
	}
}

// Cloud is an http.Handler: GET, PUT and DELETE of /ACCOUNT/ZONE/NAME, and GET of /ACCOUNT/ZONE, page by page.
type Cloud struct {
	options Options
	mux     *http.ServeMux

	mu       sync.Mutex
	accounts map[string]*account
	made     int
}

type account struct {
	zones  map[string][]*machine // sorted by name
	calls  Calls
	quota  *Quota
	bucket map[bool]*bucket // of reads (false) and changes (true)
}

// bucket holds what may be called at once.
type bucket struct {
	filled float64
	at     time.Time
}

// machine is one as the API tells of it.
type machine struct {
	Name    string         `json:"name"`
	State   string         `json:"state"`
	IP      string         `json:"ip"`
	Port    int32          `json:"port"`
	Tags    providers.Tags `json:"tags"`
	Created time.Time      `json:"created"`
}

// page is the answer to a list.
type page struct {
	Items []*machine `json:"items"`
	Next  string     `json:"next,omitempty"` // the name that the next page begins after
}

// New returns an empty cloud.
func New(o Options) *Cloud {
	c := &Cloud{options: o, mux: http.NewServeMux(), accounts: map[string]*account{}}
	c.mux.HandleFunc("GET /{account}/{zone}", c.counted(false, func(n *Calls) *int { return &n.Lists }, c.list))
	c.mux.HandleFunc("GET /{account}/{zone}/{name}", c.counted(false, func(n *Calls) *int { return &n.Gets }, c.get))
	c.mux.HandleFunc("PUT /{account}/{zone}/{name}", c.counted(true, func(n *Calls) *int { return &n.Creates }, c.create))
	c.mux.HandleFunc("DELETE /{account}/{zone}/{name}", c.counted(true, func(n *Calls) *int { return &n.Deletes }, c.remove))
	return c
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

// Calls returns what the account was asked for so far.
func (c *Cloud) Calls(name string) Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account(name).calls
}

// Machines counts those of the account.
func (c *Cloud) Machines(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, machines := range c.account(name).zones {
		n += len(machines)
	}
	return n
}

// account is made when it is first asked for. The caller holds mu.
func (c *Cloud) account(name string) *account {
	a, ok := c.accounts[name]
	if !ok {
		a = &account{zones: map[string][]*machine{}, bucket: map[bool]*bucket{}}
		if q, bounded := c.options.Quotas[name]; bounded {
			a.quota = &q
			for _, changes := range []bool{false, true} {
				a.bucket[changes] = &bucket{filled: q.Burst, at: c.options.Clock.Now()}
			}
		}
		c.accounts[name] = a
	}
	return a
}

// counted answers with mu held.
func (c *Cloud) counted(changes bool, of func(*Calls) *int, answer func(*account, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		a := c.account(r.PathValue("account"))
		*of(&a.calls)++
		if !slices.Contains(c.options.Zones, r.PathValue("zone")) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if !a.admits(changes, c.options.Clock.Now()) {
			a.calls.Rejected++
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answer(a, w, r)
	}
}

func (a *account) admits(changes bool, now time.Time) bool {
	if a.quota == nil {
		return true
	}
	b := a.bucket[changes]
	b.filled = min(a.quota.Burst, b.filled+now.Sub(b.at).Seconds()*a.quota.PerSecond)
	b.at = now
	if b.filled < 1 {
		return false
	}
	b.filled--
	return true
}

// find returns the place of a name in its zone, and whether it is held.
func (a *account) find(zone, name string) (int, bool) {
	return slices.BinarySearchFunc(a.zones[zone], name, func(m *machine, name string) int { return strings.Compare(m.Name, name) })
}

func (c *Cloud) create(a *account, w http.ResponseWriter, r *http.Request) {
	var m machine
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	zone := r.PathValue("zone")
	m.Name = r.PathValue("name")
	at, held := a.find(zone, m.Name)
	if held {
		if other := a.zones[zone][at]; other.Tags != m.Tags {
			w.WriteHeader(http.StatusConflict)
			return
		}
		c.write(w, a.zones[zone][at])
		return
	}
	c.made++
	m.Created = c.options.Clock.Now().UTC()
	m.IP = "10." + strconv.Itoa(c.made>>16&255) + "." + strconv.Itoa(c.made>>8&255) + "." + strconv.Itoa(c.made&255)
	a.zones[zone] = slices.Insert(a.zones[zone], at, &m)
	c.write(w, &m)
}

func (c *Cloud) get(a *account, w http.ResponseWriter, r *http.Request) {
	zone := r.PathValue("zone")
	at, held := a.find(zone, r.PathValue("name"))
	if !held {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	c.write(w, a.zones[zone][at])
}

func (c *Cloud) remove(a *account, w http.ResponseWriter, r *http.Request) {
	zone := r.PathValue("zone")
	at, held := a.find(zone, r.PathValue("name"))
	if !held {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	a.zones[zone] = slices.Delete(a.zones[zone], at, at+1)
	w.WriteHeader(http.StatusNoContent)
}

func (c *Cloud) list(a *account, w http.ResponseWriter, r *http.Request) {
	zone := a.zones[r.PathValue("zone")]
	query := r.URL.Query()
	from := 0
	if after := query.Get("after"); after != "" {
		at, held := a.find(r.PathValue("zone"), after)
		if from = at; held {
			from++
		}
	}
	sel := providers.Selector{Installation: query.Get("installation"), OwnerUID: query.Get("owner")}
	answer := page{Items: []*machine{}}
	for _, m := range zone[from:] {
		if !sel.Matches(m.Tags) {
			continue
		}
		if len(answer.Items) == c.options.PageSize {
			answer.Next = answer.Items[len(answer.Items)-1].Name
			break
		}
		answer.Items = append(answer.Items, c.now(m))
	}
	c.writeJSON(w, answer)
}

// now is the machine as it is at this moment.
func (c *Cloud) now(m *machine) *machine {
	copied := *m
	copied.State = string(providers.StateRunning)
	if c.options.Clock.Since(m.Created) < c.options.Boot {
		copied.State, copied.IP = string(providers.StateProvisioning), ""
	}
	return &copied
}

func (c *Cloud) write(w http.ResponseWriter, m *machine) { c.writeJSON(w, c.now(m)) }

func (c *Cloud) writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client sees what is missing
}
