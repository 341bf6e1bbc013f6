// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// troubles are what a cluster does to pods, and what a person then sees and does.
func (s *suite) troubles(ctx context.Context) {
	s.check(ctx, "an image that can't be pulled is told of, and one that can heals it", s.imagePull)
	s.check(ctx, "a namespace that is deleted with Proxies and Secrets in it ends", s.deleteNamespace)
}

func (s *suite) imagePull(ctx context.Context) error {
	const namespace = "e2e-pull"
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	p := proxy(namespace, "nowhere", func(spec *v1alpha1.ProxySpec) { spec.Image = "localhost/nowhere:1" })
	if err := s.create(ctx, p); err != nil {
		return err
	}
	told := s.eventually(ctx, func(ctx context.Context) error {
		return errors.Join(s.says(namespace, p.Name, "ImagePull")(ctx), s.event(ctx, p, "localhost/nowhere:1"))
	})
	if told != nil {
		return told
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"image":null}}`))
	if err := s.kube.Patch(ctx, p, patch); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.settled(namespace, 1)); err != nil {
		return err
	}
	return s.remove(ctx, namespace)
}

const (
	limited     = "e2e-quota"
	limit       = 2 // pods
	wanted      = 4
	raised      = `{"spec":{"hard":{"pods":"10"}}}`
	healsWithin = 6 * time.Minute // the operator asks again every 5 minutes
)

// reachQuota makes more Proxies than a quota has room for, and then raises it. What comes of that is looked at later: the
// operator lets a full namespace rest for some minutes.
func (s *suite) reachQuota(ctx context.Context) error {
	if err := s.namespace(ctx, limited); err != nil {
		return err
	}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: limited, Name: "pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(limit, resource.DecimalSI)}},
	}
	if err := s.create(ctx, quota); err != nil {
		return err
	}
	// The API server counts from when the quota's controller has seen it.
	err := s.eventually(ctx, func(ctx context.Context) error {
		if err := s.kube.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return errors.New("the quota isn't counted yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range wanted {
		if err := s.create(ctx, proxy(limited, fleetName(i))); err != nil {
			return err
		}
	}
	if err := s.eventually(ctx, s.refusedByQuota(limited, limit, wanted-limit)); err != nil {
		return err
	}
	return s.kube.Patch(ctx, quota, client.RawPatch(types.MergePatchType, []byte(raised)))
}

func (s *suite) quotaHeals(ctx context.Context) error {
	if err := s.eventually(ctx, s.settled(limited, wanted)); err != nil {
		return err
	}
	return s.remove(ctx, limited)
}

// refusedByQuota is nil once so many Proxies are Ready, and so many say that the quota is reached.
func (s *suite) refusedByQuota(namespace string, ready, refused int) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := s.proxies(ctx, namespace)
		if err != nil {
			return err
		}
		isOne, told := 0, 0
		for i := range all {
			if isReady(&all[i]) {
				isOne++
			} else if hasReason(&all[i], v1alpha1.ReasonQuotaExceeded) {
				told++
			}
		}
		if isOne != ready || told != refused {
			return fmt.Errorf("%d are Ready and %d say that the quota is reached, not %d and %d", isOne, told, ready, refused)
		}
		return nil
	}
}

func hasReason(p *v1alpha1.Proxy, reason string) bool {
	for _, c := range p.Status.Conditions {
		if c.Reason == reason {
			return true
		}
	}
	return false
}

func (s *suite) deleteNamespace(ctx context.Context) error {
	const namespace, count = "e2e-doomed", 4
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	if err := s.create(ctx, secret(namespace, "seed", map[string]string{"user-data": userData})); err != nil {
		return err
	}
	for i := range count {
		if err := s.create(ctx, proxy(namespace, fleetName(i), cloudInitFrom("seed"))); err != nil {
			return err
		}
	}
	if err := s.eventually(ctx, s.settled(namespace, count)); err != nil {
		return err
	}
	// One more is in the making, and can't be made any more.
	if err := s.create(ctx, proxy(namespace, "late", cloudInitFrom("seed"))); err != nil {
		return err
	}
	return s.remove(ctx, namespace)
}

// remove deletes a namespace and waits until it has ended.
func (s *suite) remove(ctx context.Context, namespace string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := s.kube.Delete(ctx, ns); err != nil {
		return err
	}
	return s.eventually(ctx, s.gone(ns))
}
