// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	churning    = "e2e-churn"
	many        = 50
	churnFor    = 90 * time.Second
	killEvery   = 7 * time.Second
	changeEvery = 400 * time.Millisecond
	// settleWithin is for the fleet to come to rest on two cores, where a pod takes a second or two.
	settleWithin = 8 * time.Minute
)

// churn changes a fleet while the operator is killed again and again. In the end each Proxy has one pod, as its spec says,
// and once they are deleted nothing is left.
func (s *suite) churn(ctx context.Context) {
	ok := s.checkWithin(ctx, settleWithin, fmt.Sprintf("%d Proxies are changed while the operator is killed every %s: one pod each in the end", many, killEvery), s.churnAndSettle)
	if !ok {
		return
	}
	s.checkWithin(ctx, settleWithin, "all of them are deleted: no pod and no Secret is left over", func(ctx context.Context) error {
		if err := s.kube.DeleteAllOf(ctx, &v1alpha1.Proxy{}, client.InNamespace(churning)); err != nil {
			return err
		}
		if err := s.eventually(ctx, s.settled(churning, 0)); err != nil {
			return err
		}
		return s.eventually(ctx, s.empty(churning))
	})
}

func (s *suite) churnAndSettle(ctx context.Context) error {
	if err := s.namespace(ctx, churning); err != nil {
		return err
	}
	if err := s.create(ctx, secret(churning, "seed", map[string]string{"user-data": userData})); err != nil {
		return err
	}
	if err := s.refill(ctx); err != nil {
		return err
	}
	killed, changed, err := s.killAndChange(ctx)
	if err != nil {
		return err
	}
	s.printf("        killed the operator %d times, changed %d Proxies", killed, changed)
	err = s.eventually(ctx, func(ctx context.Context) error {
		return errors.Join(s.refill(ctx), s.settled(churning, many)(ctx))
	})
	if err != nil {
		return err
	}
	return s.portsFit(ctx)
}

// killAndChange does both until the time is over.
func (s *suite) killAndChange(ctx context.Context) (killed, changed int, err error) {
	dice := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // choices, no secrets
	kill, change, end := s.clock.NewTicker(killEvery), s.clock.NewTicker(changeEvery), s.clock.NewTimer(churnFor)
	defer kill.Stop()
	defer change.Stop()
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return killed, changed, context.Cause(ctx)
		case <-end.C():
			return killed, changed, nil
		case <-kill.C():
			// By the pod, in an instant: a container that is killed so often isn't started again at once.
			pods, err := s.managers(ctx)
			if err != nil {
				return killed, changed, err
			}
			for i := range pods {
				if err := client.IgnoreNotFound(s.kube.Delete(ctx, &pods[i], client.GracePeriodSeconds(0))); err != nil {
					return killed, changed, err
				}
				killed++
			}
		case <-change.C():
			if err := errors.Join(s.changeOne(ctx, dice), s.refill(ctx)); err != nil {
				return killed, changed, err
			}
			changed++
		}
	}
}

// changeOne edits a Proxy, deletes it, or takes its pod away.
func (s *suite) changeOne(ctx context.Context, dice *rand.Rand) error {
	name := fleetName(dice.IntN(many))
	p := proxy(churning, name, cloudInitFrom("seed"))
	var err error
	switch dice.IntN(4) {
	case 0:
		err = s.kube.Delete(ctx, p)
	case 1:
		var pod *corev1.Pod
		if pod, err = s.machine(ctx, churning, name); err != nil {
			return nil //nolint:nilerr // it has none at the moment
		}
		err = s.kube.Delete(ctx, pod)
	default:
		err = s.kube.Patch(ctx, p, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"port":%d}}`, 10000+dice.IntN(1000))))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// refill makes those that aren't there: at first all, later those whose name is free again after they were deleted.
func (s *suite) refill(ctx context.Context) error {
	all, err := s.proxies(ctx, churning)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range all {
		there[all[i].Name] = true
	}
	for i := range many {
		if name := fleetName(i); !there[name] {
			if err := s.create(ctx, proxy(churning, name, cloudInitFrom("seed"))); err != nil {
				return err
			}
		}
	}
	return nil
}

// portsFit compares each pod with its Proxy's spec.
func (s *suite) portsFit(ctx context.Context) error {
	all, err := s.proxies(ctx, churning)
	if err != nil {
		return err
	}
	for i := range all {
		pod, err := s.machine(ctx, churning, all[i].Name)
		if err != nil {
			return err
		}
		if got, want := pod.Spec.Containers[0].Ports[0].ContainerPort, ptr.Deref(all[i].Spec.Port, 3128); got != want {
			return fmt.Errorf("%s: its pod listens on %d, not on %d", all[i].Name, got, want)
		}
	}
	return nil
}
