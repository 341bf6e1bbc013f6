// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/api"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// errUnwatched is what a cache of some namespaces says of any other.
var errUnwatched = errors.New("unknown namespace for the cache")

// apiDoor is a process's client: reads come from its cache, writes go to the server.
type apiDoor struct {
	client.Client
	p *process
}

// liveDoor reads past the cache.
type liveDoor struct{ p *process }

// through takes a call to the API server.
func (p *process) through(ctx context.Context, c *call, do func() error) error {
	c.by = p
	p.w.enter(c)
	err := c.refuse
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = do()
		if c.after != nil {
			if lost := c.after(); lost != nil {
				err = lost
			}
		}
	}
	p.w.leave(c, err)
	return err
}

// Get implements client.Reader.
func (d apiDoor) Get(ctx context.Context, id client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	p := d.p
	return p.through(ctx, &call{op: Cached, key: id}, func() error {
		p.deliver()
		delete(p.queue, p.pass.key) // this read sees what queued it
		if id.Namespace != namespace {
			return errUnwatched
		}
		return p.view.Get(ctx, id, o, opts...)
	})
}

// List implements client.Reader.
func (d apiDoor) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	d.p.deliver()
	return d.p.view.List(ctx, l, opts...)
}

// Patch implements client.Writer.
func (d apiDoor) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return d.write(ctx, Patch, o, func() error { return d.Client.Patch(ctx, o, patch, opts...) })
}

func (d apiDoor) write(ctx context.Context, op Op, o client.Object, do func() error) error {
	id := client.ObjectKeyFromObject(o)
	c := &call{op: op, key: id, uid: o.GetUID()}
	return d.p.through(ctx, c, func() error {
		c.was = d.p.w.proxy(id)
		err := do()
		if err == nil {
			c.proxy, _ = o.(*v1alpha1.Proxy)
			d.p.deliver()
		}
		return err
	})
}

func (w *World) proxy(id types.NamespacedName) *v1alpha1.Proxy {
	p, _ := w.api.Newest(api.Proxies, id).(*v1alpha1.Proxy)
	return p
}

// Status implements client.StatusClient.
func (d apiDoor) Status() client.SubResourceWriter { return statusDoor{d.Client.Status(), d} }

type statusDoor struct {
	client.SubResourceWriter
	d apiDoor
}

// Patch implements client.SubResourceWriter.
func (s statusDoor) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.d.write(ctx, Status, o, func() error { return s.SubResourceWriter.Patch(ctx, o, patch, opts...) })
}

// Get implements client.Reader.
func (d liveDoor) Get(ctx context.Context, id client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c := &call{op: Live, key: id}
	switch o.(type) {
	case *corev1.Secret:
		c.op = Secret
	case *corev1.ConfigMap:
		c.op = NoteRead
	}
	return d.p.through(ctx, c, func() error {
		err := d.p.w.api.Client().Get(ctx, id, o, opts...)
		if c.op == Live && err == nil {
			c.proxy, _ = o.(*v1alpha1.Proxy)
			d.p.pass.live = c.step
		}
		return err
	})
}

// List implements client.Reader.
func (d liveDoor) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return d.p.through(ctx, &call{op: Owners}, func() error { return d.p.w.api.Client().List(ctx, l, opts...) })
}

// cloudDoor is a process's way to one account.
type cloudDoor struct {
	providers.Provider
	p       *process
	account string
}

func (d cloudDoor) enter(c *call) *call {
	c.by, c.key, c.in = d.p, d.p.pass.key, d.account
	d.p.w.enter(c)
	return c
}

// Create implements providers.Provider.
func (d cloudDoor) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	w := d.p.w
	c := d.enter(&call{op: Create, request: req})
	m := w.made[req.Name]
	if m == nil {
		m = &making{}
		w.made[req.Name] = m
	}
	m.request = req
	c.intent = w.intent(d.p.pass.key)
	m.at = c.intent
	if m.sent++; m.sent == 1 || d.p.skew < m.skew {
		m.skew = d.p.skew
	}
	w.strays(req)
	i, err := d.Provider.Create(ctx, req)
	if c.ref = i.Ref; providers.MutationClass(err) != providers.Ambiguous {
		m.answered++
	}
	w.leave(c, err)
	return i, err
}

// strays notes a create that lands while a process works whose clock is more than a minute ahead of the one by which the
// intent was dated: that process counts it as settled too soon.
func (w *World) strays(r providers.CreateRequest) {
	m := w.made[r.Name]
	for _, p := range w.procs {
		m.astray = m.astray || p.skew-m.skew > time.Minute
	}
	if m.astray && !w.exists(r.Tags.OwnerUID) {
		w.orphans[r.Tags.OwnerUID] = beyondClocks
	}
}

// intent is the time of the newest intent of a Proxy.
func (w *World) intent(id types.NamespacedName) time.Time {
	var in struct {
		At time.Time `json:"at"`
	}
	if p := w.proxy(id); p != nil && json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationIntent]), &in) == nil {
		return in.At
	}
	return time.Time{}
}

// Get implements providers.Provider.
func (d cloudDoor) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	c := d.enter(&call{op: Get, ref: ref})
	i, err := d.Provider.Get(ctx, ref)
	if err == nil {
		d.p.w.hear(i)
	}
	d.p.w.leave(c, err)
	return i, err
}

// Delete implements providers.Provider.
func (d cloudDoor) Delete(ctx context.Context, ref providers.Ref) error {
	c := d.enter(&call{op: Delete, ref: ref})
	for _, i := range d.p.w.cloud.All() {
		if i.Ref == ref {
			c.machine = &i
		}
	}
	err := d.Provider.Delete(ctx, ref)
	d.p.w.leave(c, err)
	return err
}

// ListByTag implements providers.Provider.
func (d cloudDoor) ListByTag(ctx context.Context, sel providers.Selector) ([]providers.Instance, error) {
	c := d.enter(&call{op: List})
	list, err := d.Provider.ListByTag(ctx, sel)
	c.listed = list
	for _, i := range list {
		d.p.w.hear(i)
	}
	d.p.w.leave(c, err)
	return list, err
}

// Check implements providers.Checker.
func (d cloudDoor) Check(req providers.CreateRequest) error {
	if c, ok := d.Provider.(providers.Checker); ok {
		return c.Check(req)
	}
	return nil
}

// hear notes that the cloud said that a machine runs.
func (w *World) hear(i providers.Instance) {
	if i.State == providers.StateRunning {
		w.told[reading{i.Ref, i.IP}] = w.now()
	}
}

// cloudDoor hands the current call's fault to the cloud.
func (w *World) cloudDoor(cloud.Call) cloud.Fault {
	c := w.current
	f := c.cloud
	if c.after != nil {
		f.After = func() { _ = c.after() } // what it returns is for the API; in the cloud a context that ended loses the answer
	}
	return f
}

// recorder hears events.
type recorder struct{ w *World }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.w.spoken = append(r.w.spoken, kind+" "+reason+" "+fmt.Sprintf(note, args...))
}

// sink hears logs.
type sink struct{ w *World }

// Init implements logr.LogSink.
func (sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (sink) Enabled(int) bool { return true }

// Info implements logr.LogSink.
func (s sink) Info(_ int, msg string, kv ...any) {
	s.w.spoken = append(s.w.spoken, fmt.Sprint(msg, kv))
}

// Error implements logr.LogSink.
func (s sink) Error(err error, msg string, kv ...any) {
	s.w.spoken = append(s.w.spoken, fmt.Sprint(msg, err, kv))
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(...any) logr.LogSink { return s }

// WithName implements logr.LogSink.
func (s sink) WithName(string) logr.LogSink { return s }
