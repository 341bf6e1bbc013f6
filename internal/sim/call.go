// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Op is a kind of call of the operator through a door.
type Op string

// The calls. A cached read is one too: it is where a pass begins, and what it returns may be old.
const (
	Cached Op = "cached read of Proxy"
	Live   Op = "live read of Proxy"
	Secret Op = "live read of Secret" //nolint:gosec // G101: no credential, a kind of object
	Patch  Op = "patch of metadata"
	Status Op = "patch of status"
	Create Op = "create"
	Get    Op = "get"
	List   Op = "list"
	Delete Op = "delete"

	// Of the collector's sweeps alone.
	Owners    Op = "live list of Proxies"
	NoteRead  Op = "live read of ConfigMap"
	NoteWrite Op = "write of ConfigMap"
)

var (
	proxyWrites   = []Op{Patch, Status}
	apiCalls      = []Op{Live, Secret, Patch, Status, Owners, NoteRead, NoteWrite}
	apiWrites     = []Op{Patch, Status, NoteWrite}
	cloudCalls    = []Op{Create, Get, List, Delete}
	cloudMutation = []Op{Create, Delete}
	anyCall       = slices.Concat([]Op{Cached}, apiCalls, cloudCalls)
	sentCalls     = slices.Concat(apiCalls, cloudCalls)
)

func (o Op) ofCloud() bool  { return slices.Contains(cloudCalls, o) }
func (o Op) mutates() bool  { return slices.Contains(cloudMutation, o) }
func (o Op) writes() bool   { return slices.Contains(apiWrites, o) }
func (o Op) took() Duration { return latency[o] }

// Duration is virtual time.
type Duration = time.Duration

// latency is how long a call takes on a good day.
var latency = map[Op]Duration{
	Live: 5 * time.Millisecond, Secret: 5 * time.Millisecond, Patch: 10 * time.Millisecond, Status: 10 * time.Millisecond,
	Owners: 20 * time.Millisecond, NoteRead: 5 * time.Millisecond, NoteWrite: 10 * time.Millisecond,
	Create: 400 * time.Millisecond, Get: 80 * time.Millisecond, List: 150 * time.Millisecond, Delete: 200 * time.Millisecond,
}

// call is one call on its way through a door, and what faults made of it.
type call struct {
	op   Op
	step int
	at   time.Time // when it was sent
	by   *process
	key  types.NamespacedName
	uid  types.UID // of the object that a write is meant for
	in   string    // account, of a call to a cloud
	user int       // step of the newest act of a user before the call

	request providers.CreateRequest // of a create
	intent  time.Time               // that the create is for
	ref     providers.Ref           // of a get or delete, and of what a create answered
	machine *providers.Instance     // that a delete hits, as it truly is before it
	listed  []providers.Instance    // that a list showed
	proxy   *v1alpha1.Proxy         // that a live read answered, or a write left
	was     *v1alpha1.Proxy         // before a write

	refuse error        // answered before anything is done
	cloud  cloud.Fault  // what goes wrong in the cloud
	after  func() error // runs when it is done, before it is answered; may crash, or lose the answer

	err error
}

// crash is the end of a process, as by SIGKILL.
type crash struct {
	behind int      // revisions that the next one's caches are behind
	skew   Duration // of the next one's clock
}

// halt ends a run whose law was broken.
type halt struct{}

// enter lets time pass, users act and faults strike, before a call is sent.
func (w *World) enter(c *call) {
	if w.failure != nil {
		panic(halt{})
	}
	w.sleep(c.op.took())
	w.step++
	c.step = w.step
	w.current = c
	w.usersAct()
	c.user = w.lastAct
	c.at = w.now()
	w.ops = append(w.ops, Seen{c.op, w.machineAlive(), c.by.pass.sweep})
	w.outages(c)
	for i := range w.faults {
		f := &w.faults[i]
		if f.At != w.step || f.struck {
			continue
		}
		k := findFault(f.Kind)
		if !slices.Contains(k.hits, c.op) || (k.sweeps && !c.by.pass.sweep) {
			continue
		}
		f.struck = true
		w.struck, w.changed = w.now(), w.now()
		w.note("%s strikes %s", f.Happening, c.op)
		w.ends(k.lasts(f.Arg))
		if t := w.now().Add(k.lasts(f.Arg) + time.Second); t.After(w.over) {
			w.over = t
		}
		if t := w.now().Add(k.lasts(f.Arg)); !k.health && t.After(w.probes.disturbed) {
			w.probes.disturbed = t
		}
		k.strike(w, c, f.Arg)
	}
}

// leave notes what became of a call, and checks every law.
func (w *World) leave(c *call, err error) {
	c.err = err
	if c.op.writes() || c.op.mutates() {
		w.changed = w.now()
	}
	w.note("%4d %-8s p%d %s %s%s %s", c.step, w.since(), c.by.id, c.op, c.key.Name, detail(c), outcome(err))
	w.check(c)
}

func detail(c *call) string {
	switch {
	case c.op == Create:
		return fmt.Sprintf(" %s #%d in %s/%s", c.request.Name, c.request.Key.Incarnation, c.request.Key.Account, c.request.Key.Zone)
	case !c.ref.IsZero():
		return " " + c.ref.String()
	case c.op == Status && c.proxy != nil:
		return fmt.Sprintf(" %s ready=%s %s", c.proxy.Status.Phase, readyOf(c.proxy), c.proxy.Status.ProviderID)
	case c.proxy != nil:
		return fmt.Sprintf(" rv=%s g=%d %s", c.proxy.ResourceVersion, c.proxy.Generation, c.proxy.Annotations[v1alpha1.AnnotationIntent])
	default:
		return ""
	}
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return "! " + err.Error()
}

// fails breaks the run off: a law doesn't hold.
func (w *World) fails(law, why string) {
	if w.failure == nil {
		w.failure = &Failure{Law: law, Why: why, Step: w.step}
		w.note("BROKEN %s: %s", law, why)
	}
}
