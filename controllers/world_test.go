// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/test/apiserver"
)

// The suite runs real passes against a real API server, one at a time and by a clock of its own, with model clouds
// behind the provider seam.
var (
	apiConfig *rest.Config
	scheme    = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, "..", func(_ context.Context, config *rest.Config) error {
		apiConfig = config
		return errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	}))
}

// world is one namespace, one model cloud and one operator that works on them pass by pass.
type world struct {
	t     *testing.T
	api   client.Client // the test's own, past all faults
	ns    string
	clock *clocktesting.FakePassiveClock
	cloud *cloud.Cloud
	r     *ProxyReconciler
	hooks hooks

	mu     sync.Mutex
	events []string
}

// hooks make API writes of the operator fail; nil: they don't.
type hooks struct {
	before func(kind string) error // before a write is sent; may panic: a crash
	after  func(kind string) error // after it took effect
}

func newWorld(t *testing.T, p cloud.Profile) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second))}
	api, err := client.New(apiConfig, client.Options{Scheme: scheme})
	require.NoError(t, err)
	w.api = api
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, api.Create(w.t.Context(), ns))
	w.ns = ns.Name
	w.cloud = cloud.New(p, w.clock, 1)
	w.restart()
	return w
}

// restart replaces the operator: what only its process knew is gone.
func (w *world) restart() {
	direct, err := client.NewWithWatch(apiConfig, client.Options{Scheme: scheme})
	require.NoError(w.t, err)
	m, err := NewMetrics(prometheus.NewRegistry())
	require.NoError(w.t, err)
	w.r = &ProxyReconciler{
		Client: interceptor.NewClient(direct, w.faults()), APIReader: w.api, Recorder: w, Installation: "inst",
		Providers: providers.Registry{"cloud": w.account("cloud"), "other": w.account("other")},
		Clock:     w.clock, Secrets: &Secrets{Live: w.api}, Metrics: m,
	}
}

func (w *world) account(name string) providers.Account {
	return providers.Account{Name: name, Type: "model", Zones: w.cloud.Profile().Zones, Fingerprint: "f1", Provider: w.cloud.Account(name)}
}

func (w *world) faults() interceptor.Funcs {
	around := func(kind string, do func() error) error {
		if w.hooks.before != nil {
			if err := w.hooks.before(kind); err != nil {
				return err
			}
		}
		if err := do(); err != nil {
			return err
		}
		if w.hooks.after != nil {
			return w.hooks.after(kind)
		}
		return nil
	}
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return around("object", func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return around(sub, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}
}

// Eventf implements events.EventRecorder.
func (w *world) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, kind+" "+reason+" "+fmt.Sprintf(note, args...))
}

// create makes a Managed Proxy on the account cloud, changed as told.
func (w *world) create(name string, change ...func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
	w.t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}, Spec: v1alpha1.ProxySpec{Provider: "cloud"}}
	for _, c := range change {
		c(p)
	}
	require.NoError(w.t, w.api.Create(w.t.Context(), p))
	return p
}

func (w *world) get(name string) *v1alpha1.Proxy {
	w.t.Helper()
	p := &v1alpha1.Proxy{}
	require.NoError(w.t, w.api.Get(w.t.Context(), w.key(name), p))
	return p
}

func (w *world) gone(name string) bool {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), w.key(name), &v1alpha1.Proxy{})
	require.NoError(w.t, client.IgnoreNotFound(err))
	return err != nil
}

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.ns, Name: name}
}

// edit changes the Proxy as a user would.
func (w *world) edit(name string, change func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
	w.t.Helper()
	p := w.get(name)
	change(p)
	require.NoError(w.t, w.api.Update(w.t.Context(), p))
	return p
}

func (w *world) annotate(name, key, value string) {
	w.t.Helper()
	w.edit(name, func(p *v1alpha1.Proxy) { setAnnotation(p, key, value) })
}

func setAnnotation(p *v1alpha1.Proxy, key, value string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
}

func (w *world) delete(name string) {
	w.t.Helper()
	require.NoError(w.t, w.api.Delete(w.t.Context(), w.get(name)))
}

func (w *world) secret(name string, data map[string]string) {
	w.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	_, err := ctrl.CreateOrUpdate(w.t.Context(), w.api, s, func() error {
		s.Data = map[string][]byte{}
		for k, v := range data {
			s.Data[k] = []byte(v)
		}
		return nil
	})
	require.NoError(w.t, err)
}

// pass runs one pass.
func (w *world) pass(name string) (ctrl.Result, error) {
	return w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key(name)})
}

// tick runs one pass, and the wait that it asks for.
func (w *world) tick(name string) (ctrl.Result, error) {
	res, err := w.pass(name)
	w.wait(res, err)
	return res, err
}

func (w *world) wait(res ctrl.Result, err error) {
	d := res.RequeueAfter
	if err != nil {
		d = time.Second
	}
	w.clock.SetTime(w.clock.Now().Add(d))
}

// crashing runs one pass and reports whether it ended in a panic, which stands for SIGKILL.
func (w *world) crashing(name string) (died bool) {
	defer func() {
		if v := recover(); v != nil {
			if v != errCrash { //nolint:errorlint // a panic value, not an error chain
				panic(v)
			}
			died = true
		}
	}()
	_, _ = w.pass(name)
	return false
}

var errCrash = fmt.Errorf("killed here")

// until runs passes until the condition holds: not for ever, and not for more than an hour of the clock.
func (w *world) until(name string, holds func() bool) {
	w.t.Helper()
	if holds() {
		return
	}
	start := w.clock.Now()
	for range 500 {
		res, err := w.pass(name)
		if holds() {
			return
		}
		if w.wait(res, err); w.clock.Since(start) > 2*time.Hour {
			break
		}
	}
	w.t.Fatalf("did not come about within %s: %s", w.clock.Since(start), w.describe(name))
}

func (w *world) describe(name string) string {
	if w.gone(name) {
		return "the Proxy is gone; cloud: " + fmt.Sprint(w.cloud.All())
	}
	p := w.get(name)
	return fmt.Sprintf("status %+v\nannotations %v\ncloud %+v\nevents:\n%s", p.Status, p.Annotations, w.cloud.All(), strings.Join(w.events, "\n"))
}

func (w *world) ready(name string) *v1alpha1.Proxy {
	w.t.Helper()
	w.until(name, func() bool { return isReady(w.get(name)) })
	return w.get(name)
}

// gives runs passes until the Proxy is Ready=False for the reason.
func (w *world) gives(name, reason string) *v1alpha1.Proxy {
	w.t.Helper()
	w.until(name, func() bool { return reasonOf(w.get(name), v1alpha1.ConditionReady) == reason })
	return w.get(name)
}

// removed deletes the Proxy and runs passes until it and its machines are gone.
func (w *world) removed(name string) {
	w.t.Helper()
	uid := string(w.get(name).UID)
	w.delete(name)
	w.until(name, func() bool { return w.gone(name) })
	require.Empty(w.t, w.machines(uid), "a machine is left")
}

// machines are the living ones of an owner, as they truly are.
func (w *world) machines(uid string) []providers.Instance {
	var out []providers.Instance
	for _, i := range w.cloud.All() {
		if i.Tags.OwnerUID == uid {
			out = append(out, i)
		}
	}
	return out
}

func isReady(p *v1alpha1.Proxy) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
}

func reasonOf(p *v1alpha1.Proxy, kind string) string {
	if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

func messageOf(p *v1alpha1.Proxy, kind string) string {
	if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// count counts the calls of one kind.
func (w *world) count(op cloud.Op) int {
	n := 0
	for _, c := range w.cloud.Calls() {
		if c.Op == op {
			n++
		}
	}
	return n
}
