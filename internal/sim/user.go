// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/api"
)

// act is something that a user does. A new one is a line here.
type act struct {
	name string
	do   func(w *World, arg int)
	// machines that it may cost: one that is made for it.
	machines int
	// lifts: it changes what a machine is made from, so that no wait after an error outlives it.
	lifts bool
}

// acts lists what users do, all of it to the Proxy a.
func acts() []act {
	return append([]act{
		{"edit", onSpec(func(_ *World, p *v1alpha1.Proxy, port int) { n := int32(port); p.Spec.Port = &n }), 1, true}, //nolint:gosec // G115: plans have ports
		{"revert", onSpec(func(_ *World, p *v1alpha1.Proxy, _ int) { p.Spec.Port = nil }), 1, true},
		{"label", onSpec(func(_ *World, p *v1alpha1.Proxy, n int) {
			p.Spec.Labels = map[string]v1alpha1.LabelValue{"team": v1alpha1.LabelValue("t" + strconv.Itoa(n))}
		}), 1, true},
		{"bad", onSpec(func(_ *World, p *v1alpha1.Proxy, _ int) {
			p.Spec.Location = &v1alpha1.Location{Zones: []v1alpha1.Zone{"nowhere"}}
		}), 0, false},
		{"good", onSpec(func(_ *World, p *v1alpha1.Proxy, _ int) { p.Spec.Location = nil }), 1, true},
		{"zone", onSpec(func(w *World, p *v1alpha1.Proxy, n int) {
			p.Spec.Location = &v1alpha1.Location{Zones: []v1alpha1.Zone{v1alpha1.Zone(w.zones()[n%len(w.zones())])}}
		}), 1, true},
		{"account", onSpec(func(_ *World, p *v1alpha1.Proxy, _ int) { p.Spec.Provider = accounts[1] }), 1, true},
		{"rotate", rotate, 1, true},
		{"unsecret", func(w *World, _ int) {
			if s := w.secret(); s != nil {
				w.must(w.api.Client().Delete(context.Background(), s.DeepCopy()))
			}
		}, 0, false},
		{"delete", func(w *World, _ int) { w.deleteFirst() }, 0, false},
		{"recreate", recreate, 1, false},
		{"pause", annotate(v1alpha1.AnnotationPaused, func(*World) string { return "true" }), 0, false},
		{"resume", annotate(v1alpha1.AnnotationPaused, func(*World) string { return "" }), 1, false},
		{"replace", annotate(v1alpha1.AnnotationReplaceRequestedAt, func(w *World) string { return w.now().UTC().Format(time.RFC3339) }), 1, false},
		{"poke", annotate(v1alpha1.AnnotationReconcileRequestedAt, func(w *World) string { return w.since() }), 0, true},
		{"abandon", annotate(v1alpha1.AnnotationAbandon, func(w *World) string {
			uid := string(w.first().UID)
			w.letGo[uid] = true
			return uid
		}), 0, false},
		{"wipe", onObject(func(w *World, p *v1alpha1.Proxy, _ int) {
			if p.Status.ProviderID == "" && (w.sentFor(string(p.UID)) || p.Annotations[v1alpha1.AnnotationIntent] != "") {
				w.beyond = beyondUnnamed
			}
			w.wiped, w.wipedAt = w.step, w.now()
			p.Annotations, p.Finalizers = nil, nil
		}), 0, false},
		{"misname", misname, 0, false},
		{"mistake", annotate(v1alpha1.AnnotationAbandon, func(*World) string { return "another-object's-uid" }), 0, false},
		{"strip", onObject(func(w *World, p *v1alpha1.Proxy, _ int) {
			w.wiped, w.wipedAt = w.step, w.now()
			p.Finalizers = nil
		}), 0, false},
		{"copy", copyFirst, 1, false},
	}, slices.Concat(orphanActs(), healthActs())...)
}

// onePass is more steps than a pass has.
const onePass = 8

// What can't be met. The machines that are left over are the business of the collector of orphans.
const (
	beyondUnheld  = "wiped, then deleted before the finalizer is back"
	beyondUnnamed = "wiped before status names the machine"
	beyondClocks  = "a create was under way while the next process's clock was minutes ahead"
)

// excused reports whether a law may be broken for what can't be met. For the others no law is: they are told by the
// machines that they leave.
func excused(beyond, law string, restarted bool) bool {
	// The process that sent the create still knows of it; the next one doesn't.
	return beyond == beyondUnnamed && (law == "L14" || (restarted && (law == "L2" || law == "L10")))
}

var actsByName = func() map[string]*act {
	m := map[string]*act{}
	for _, a := range acts() {
		m[a.name] = &a
	}
	return m
}()

func findAct(name string) *act { return actsByName[name] }

// usersAct does what is due at the step.
func (w *World) usersAct() {
	for i := range w.users {
		if u := &w.users[i]; !u.struck && u.At <= w.step {
			w.act(u)
		}
	}
}

func (w *World) act(u *strike) {
	u.struck = true
	w.acted()
	w.ends(0)
	if findAct(u.Kind).lifts {
		w.lifted = w.now()
	}
	w.note("     %-8s user: %s", w.since(), u.Happening)
	findAct(u.Kind).do(w, u.Arg)
}

func (w *World) secret() *corev1.Secret {
	s, _ := w.api.Newest(api.Secrets, types.NamespacedName{Namespace: namespace, Name: secretName}).(*corev1.Secret)
	return s
}

// onObject edits the Proxy a, if it is there, as kubectl would.
func onObject(change func(*World, *v1alpha1.Proxy, int)) func(*World, int) {
	return func(w *World, n int) {
		p := w.first()
		if p == nil {
			return
		}
		q := p.DeepCopy()
		change(w, q, n)
		w.must(client.IgnoreNotFound(w.api.Client().Update(context.Background(), q)))
	}
}

func onSpec(change func(*World, *v1alpha1.Proxy, int)) func(*World, int) { return onObject(change) }

func annotate(key string, value func(*World) string) func(*World, int) {
	return onObject(func(w *World, p *v1alpha1.Proxy, _ int) {
		v := value(w)
		if v == "" {
			delete(p.Annotations, key)
			return
		}
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = v
	})
}

// rotate writes other content into the Secret, or makes it anew.
func rotate(w *World, n int) { w.rewrite("#cloud-config\n# " + secretMark + " " + strconv.Itoa(n)) }

func (w *World) rewrite(userData string) {
	ctx, c := context.Background(), w.api.Client()
	data := map[string][]byte{secretKey: []byte(userData)}
	if s := w.secret(); s != nil {
		q := s.DeepCopy()
		q.Data = data
		w.must(c.Update(ctx, q))
		return
	}
	s := &corev1.Secret{Data: data}
	s.Namespace, s.Name = namespace, secretName
	w.must(c.Create(ctx, s))
}

// deleteFirst deletes the Proxy a. Without its finalizer it is gone at once, and its machine is nobody's.
func (w *World) deleteFirst() {
	p := w.first()
	if p == nil {
		return
	}
	down := w.over.After(w.wipedAt) && w.now().Before(w.over.Add(maxBackoff))
	if len(p.Finalizers) == 0 && w.wiped > 0 && (down || w.step-w.wiped < onePass*max(1, w.plan.Objects)) {
		w.orphans[string(p.UID)] = beyondUnheld
	}
	w.must(w.api.Client().Delete(context.Background(), p.DeepCopy()))
}

// recreate deletes the Proxy a, and makes one of the same name as soon as it is gone.
func recreate(w *World, _ int) {
	w.deleteFirst()
	w.again("a")
}

func (w *World) again(name string) {
	if w.first() != nil {
		w.later(50*time.Millisecond, func() { w.again(name) })
		return
	}
	w.acted()
	w.ends(0)
	w.must(w.api.Client().Create(context.Background(), newProxy(name)))
}

// misname writes another installation's machine into status.
func misname(w *World, _ int) {
	p := w.first()
	if p == nil {
		return
	}
	q := p.DeepCopy()
	q.Status.ProviderID = w.foreign[1].String()
	w.must(w.api.Client().Status().Patch(context.Background(), q, client.MergeFrom(p)))
}

// copyFirst makes a Proxy b of the manifest of a, its intent included.
func copyFirst(w *World, _ int) {
	p := w.first()
	if p == nil {
		return
	}
	q := newProxy("b")
	q.Spec = *p.Spec.DeepCopy()
	q.Annotations = p.DeepCopy().Annotations
	q.Finalizers = slices.Clone(p.Finalizers)
	if w.api.Newest(api.Proxies, client.ObjectKeyFromObject(q)) == nil {
		w.must(w.api.Client().Create(context.Background(), q))
	}
}

// sentFor reports whether a create for the owner was ever sent.
func (w *World) sentFor(uid string) bool {
	for _, m := range w.made {
		if m.request.Tags.OwnerUID == uid {
			return true
		}
	}
	return false
}
