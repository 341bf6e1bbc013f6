// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const (
	cloudInitSecret = "bench-cloud-init"
	// fleetLimit is how long a fleet may take to come or to go.
	fleetLimit = 5 * time.Minute
)

// proxyIn is a Proxy of an account, as users write it: user data from a Secret that the fleet shares.
func proxyIn(account, name string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: v1alpha1.ProxySpec{
			Provider:  account,
			CloudInit: &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: cloudInitSecret}},
		},
	}
}

func secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: cloudInitSecret},
		StringData: map[string]string{"user-data": "#cloud-config\n"},
	}
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}

// createReady creates Proxies, all at once, and returns when all are Ready.
func (w *world) createReady(ctx context.Context, names []string) error {
	return w.createReadyIn(ctx, operator.Account, names, fleetLimit)
}

func (w *world) createReadyIn(ctx context.Context, account string, names []string, limit time.Duration) error {
	return w.follow(ctx, names, limit, func(ctx context.Context, name string) error {
		return w.kube.Create(ctx, proxyIn(account, name))
	}, func(e watch.Event, p *v1alpha1.Proxy) bool {
		return e.Type != watch.Deleted && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
	})
}

// deleteGone deletes Proxies, all at once, and returns when none is left.
func (w *world) deleteGone(ctx context.Context, names []string) error {
	return w.follow(ctx, names, fleetLimit, func(ctx context.Context, name string) error {
		return w.kube.Delete(ctx, proxyIn("", name))
	}, func(e watch.Event, _ *v1alpha1.Proxy) bool {
		return e.Type == watch.Deleted
	})
}

// follow does something to each of the Proxies and watches until it has come about for all.
func (w *world) follow(
	ctx context.Context, names []string, limit time.Duration,
	do func(context.Context, string) error, done func(watch.Event, *v1alpha1.Proxy) bool,
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not there after %s", limit))
	defer cancel()
	var now v1alpha1.ProxyList
	if err := w.kube.List(ctx, &now, client.Limit(1)); err != nil {
		return fmt.Errorf("list Proxies: %w", err)
	}
	events, err := w.kube.Watch(ctx, &v1alpha1.ProxyList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: now.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("watch Proxies: %w", err)
	}
	defer events.Stop()
	failed := each(names, func(name string) error { return do(ctx, name) })
	for left := set(names); len(left) > 0; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d of %d Proxies: %w", len(left), len(names), context.Cause(ctx))
		case err := <-failed:
			return err
		case e, ok := <-events.ResultChan():
			p, isProxy := e.Object.(*v1alpha1.Proxy)
			if !ok || !isProxy {
				return fmt.Errorf("watch Proxies: ended early: %v", e.Object)
			}
			if done(e, p) {
				delete(left, p.Name)
			}
		}
	}
	return nil
}

func set(names []string) map[string]bool {
	s := map[string]bool{}
	for _, n := range names {
		s[n] = true
	}
	return s
}

// each does something for all names, a few at a time as a user's scripts would. The channel tells of the first error.
func each(names []string, do func(string) error) <-chan error {
	const atATime = 8
	todo, failed := make(chan string, len(names)), make(chan error, atATime)
	for _, n := range names {
		todo <- n
	}
	close(todo)
	for range min(atATime, len(names)) {
		go func() {
			for n := range todo {
				if err := do(n); err != nil {
					failed <- errors.Join(errors.New(n), err)
					return
				}
			}
		}()
	}
	return failed
}
