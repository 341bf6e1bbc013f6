// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const (
	secrets  = 8   // of each kind, which all Proxies share
	most     = 200 // milliseconds between two changes
	ports    = 64
	lowest   = 10000 // port; below those that systems give to clients
	creators = 8     // users who create at the same time

	// How many of a thousand changes are of a kind; the others edit a spec.
	rotations = 8 // each replaces the machines of many Proxies
	pauses    = 60
	deletions = 200
	// Of so many Proxies one may be deleted, and another one replaced on request. After a kill a deletion takes up to
	// 90 s, and what is going can't be edited; and a replacement makes good an edit that was lost.
	few = 5
)

// churner draws the changes. What it draws depends on the seed alone, what comes of it also on what is there by then.
type churner struct {
	*soak
	ports []int32 // that nobody listens on at all addresses
}

// users create all Proxies, change them until the time is over, and in the end pause none.
func (s *soak) users(ctx context.Context) error {
	free, err := freePorts()
	if err != nil {
		return err
	}
	c := &churner{soak: s, ports: free}
	dice := rand.New(rand.NewPCG(s.seed, 1)) //nolint:gosec // choices, no secrets
	whole := context.WithoutCancel(ctx)      // no change is cut short, so that what became of it is known
	if err := c.begin(whole, dice); err != nil {
		return err
	}
	for {
		timer := time.NewTimer(time.Duration(dice.IntN(most)) * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return c.resumeAll(whole)
		case <-timer.C:
		}
		n, what, value := dice.IntN(s.options.proxies), dice.IntN(1000), dice.Uint64()
		own := rand.New(rand.NewPCG(value, 0)) //nolint:gosec // choices, no secrets
		if what < rotations {
			err = c.rotate(whole, own)
		} else {
			err = c.change(whole, n, what-rotations, own)
		}
		// What is changed here the operator changes too, and takes away: a user tries again some time.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("change %s: %w", nameOf(n), err)
		}
	}
}

func nameOf(n int) string { return fmt.Sprintf("soak-%03d", n) }

// begin creates the Secrets and all Proxies.
func (c *churner) begin(ctx context.Context, dice *rand.Rand) error {
	for n := range secrets {
		if err := errors.Join(c.writeUserData(ctx, n, dice), c.writeLogin(ctx, n, dice)); err != nil {
			return err
		}
	}
	todo, created := make(chan *v1alpha1.Proxy, c.options.proxies), make(chan error, c.options.proxies)
	for n := range c.options.proxies {
		todo <- c.proxy(nameOf(n), dice)
	}
	close(todo)
	for range creators {
		go func() {
			for p := range todo {
				created <- c.create(ctx, p)
			}
		}()
	}
	var errs []error
	for range c.options.proxies {
		errs = append(errs, <-created)
	}
	return errors.Join(errs...)
}

func (c *churner) create(ctx context.Context, p *v1alpha1.Proxy) error {
	if err := c.kube.Create(ctx, p); err != nil {
		return fmt.Errorf("create Proxy: %w", err)
	}
	c.wanted.created(p.Name, p.UID)
	return nil
}

// proxy is a new one.
func (c *churner) proxy(name string, dice *rand.Rand) *v1alpha1.Proxy {
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.ProxySpec{Provider: operator.Account},
	}
	for _, set := range c.fields() {
		set(p, dice)
	}
	return p
}

// change does something to a Proxy, whatever is becoming of it.
func (c *churner) change(ctx context.Context, n, what int, dice *rand.Rand) error {
	name, p := nameOf(n), &v1alpha1.Proxy{}
	err := c.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p)
	if apierrors.IsNotFound(err) {
		return c.create(ctx, c.proxy(name, dice))
	}
	if err != nil {
		return err
	}
	going, paused := !p.DeletionTimestamp.IsZero(), isPaused(p)
	switch {
	case going && !paused:
		return nil
	case paused && (going || dice.IntN(3) == 0): // nothing else can be changed of one that is going
		return c.edit(ctx, p, resume)
	case what < pauses:
		return c.edit(ctx, p, pause)
	case what < pauses+deletions && n%few == 0:
		return c.remove(ctx, p)
	default:
		return c.edit(ctx, p, func(p *v1alpha1.Proxy) { c.drawEdit(n, dice)(p, dice) })
	}
}

func (c *churner) remove(ctx context.Context, p *v1alpha1.Proxy) error {
	if err := c.kube.Delete(ctx, p, client.Preconditions{UID: &p.UID}); err != nil {
		return err
	}
	c.wanted.deleted(p.Name)
	return nil
}

func isPaused(p *v1alpha1.Proxy) bool { return p.Annotations[v1alpha1.AnnotationPaused] == "true" }

func pause(p *v1alpha1.Proxy) {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationPaused, "true")
}

func resume(p *v1alpha1.Proxy) { delete(p.Annotations, v1alpha1.AnnotationPaused) }

func (c *churner) edit(ctx context.Context, p *v1alpha1.Proxy, change func(*v1alpha1.Proxy)) error {
	was := p.DeepCopy()
	change(p)
	if err := c.kube.Patch(ctx, p, client.MergeFrom(was)); err != nil {
		return err
	}
	c.wanted.edits.Add(1)
	return nil
}

// fields set one field each.
func (c *churner) fields() []func(*v1alpha1.Proxy, *rand.Rand) {
	return []func(*v1alpha1.Proxy, *rand.Rand){
		func(p *v1alpha1.Proxy, dice *rand.Rand) { p.Spec.Port = ptr.To(c.ports[dice.IntN(len(c.ports))]) },
		func(p *v1alpha1.Proxy, dice *rand.Rand) {
			p.Spec.Labels = map[string]v1alpha1.LabelValue{"round": v1alpha1.LabelValue(strconv.Itoa(dice.IntN(1000)))}
		},
		func(p *v1alpha1.Proxy, dice *rand.Rand) {
			switch dice.IntN(4) {
			case 0:
				p.Spec.CloudInit = nil
			case 1:
				p.Spec.CloudInit = &v1alpha1.CloudInit{Inline: userData(dice)}
			default:
				p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: dataSecret(dice.IntN(secrets)), Key: userDataKey}}
			}
		},
		func(p *v1alpha1.Proxy, dice *rand.Rand) {
			p.Spec.Auth = nil
			if dice.IntN(2) == 0 {
				p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: loginSecret(dice.IntN(secrets))}}
			}
		},
	}
}

// drawEdit draws what a user changes about a Proxy.
func (c *churner) drawEdit(n int, dice *rand.Rand) func(*v1alpha1.Proxy, *rand.Rand) {
	all := c.fields()
	if n%few == 1 {
		all = append(all, requestReplacement)
	}
	return all[dice.IntN(len(all))]
}

// requestReplacement asks for another machine than the present one.
func requestReplacement(p *v1alpha1.Proxy, _ *rand.Rand) {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationReplaceRequestedAt, time.Now().UTC().Format(time.RFC3339))
}

const userDataKey = "user-data"

func dataSecret(n int) string  { return "soak-data-" + strconv.Itoa(n) }
func loginSecret(n int) string { return "soak-login-" + strconv.Itoa(n) }

func userData(dice *rand.Rand) string { return fmt.Sprintf("#cloud-config\n# %x\n", dice.Uint64()) }

// rotate changes the content of a Secret.
func (c *churner) rotate(ctx context.Context, dice *rand.Rand) error {
	n := dice.IntN(secrets)
	if dice.IntN(2) == 0 {
		return c.writeLogin(ctx, n, dice)
	}
	return c.writeUserData(ctx, n, dice)
}

func (c *churner) writeUserData(ctx context.Context, n int, dice *rand.Rand) error {
	text := userData(dice)
	if err := c.writeSecret(ctx, dataSecret(n), corev1.SecretTypeOpaque, map[string]string{userDataKey: text}); err != nil {
		return err
	}
	c.wanted.wroteUserData(dataSecret(n), text)
	return nil
}

func (c *churner) writeLogin(ctx context.Context, n int, dice *rand.Rand) error {
	l := login{username: "soak", password: fmt.Sprintf("%x", dice.Uint64())}
	data := map[string]string{corev1.BasicAuthUsernameKey: l.username, corev1.BasicAuthPasswordKey: l.password}
	if err := c.writeSecret(ctx, loginSecret(n), corev1.SecretTypeBasicAuth, data); err != nil {
		return err
	}
	c.wanted.wroteLogin(loginSecret(n), l)
	return nil
}

// writeSecret makes a Secret, or changes it.
func (c *churner) writeSecret(ctx context.Context, name string, kind corev1.SecretType, data map[string]string) error {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind, StringData: data}
	err := c.kube.Update(ctx, s)
	if apierrors.IsNotFound(err) {
		err = c.kube.Create(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("write Secret: %w", err)
	}
	return nil
}

// resumeAll pauses none any more.
func (c *churner) resumeAll(ctx context.Context) error {
	var list v1alpha1.ProxyList
	if err := c.kube.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list Proxies: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if !isPaused(p) {
			continue
		}
		if err := c.edit(ctx, p, resume); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("resume %s: %w", p.Name, err)
		}
	}
	return nil
}

// freePorts lists ports that nobody listens on. A machine gets the port that it was asked for on an address of its own,
// unless somebody has the port on all addresses.
func freePorts() ([]int32, error) {
	var free []int32
	for port := int32(lowest); port < 2*lowest && len(free) < ports; port++ {
		l, err := net.Listen("tcp4", net.JoinHostPort("0.0.0.0", strconv.Itoa(int(port)))) //nolint:noctx // only to see whether it can be
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, fmt.Errorf("find free ports: %w", err)
		}
		free = append(free, port)
	}
	if len(free) == 0 {
		return nil, errors.New("find free ports: there is none")
	}
	return free, nil
}
