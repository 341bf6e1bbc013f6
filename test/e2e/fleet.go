// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	crawl    = "e2e-crawl"
	size     = 6 // Proxies of the fleet
	userData = "#cloud-config\nhostname: first\n"
	// kubeletPods is where a kubelet keeps the volumes of its pods.
	kubeletPods = "/run/proxy-operator-node/kubelet/pods"
)

func fleetName(i int) string { return fmt.Sprintf("fleet-%d", i) }

func secret(namespace, name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
}

// fleet makes Proxies and sends traffic through them.
func (s *suite) fleet(ctx context.Context) {
	s.check(ctx, originAnswers, s.startOrigin)
	if !s.check(ctx, "a fleet of Proxies becomes Ready, one pod each, their exit addresses told by the judge", s.makeFleet) {
		return
	}
	s.check(ctx, "HTTP through every pod", s.through("http", http.StatusOK, nil))
	s.check(ctx, "HTTPS through every pod", s.through("https", http.StatusOK, nil))
	s.check(ctx, "with credentials from a Secret, who has none is refused", s.withCredentials)
	s.check(ctx, "cloud-init from a Secret is in the pod", s.cloudInit(userData))
	s.check(ctx, "a new cloud-init replaces the pods, one at a time", s.rotate)
	s.check(ctx, "a pod that is deleted by hand is replaced", s.deletePod)
}

func (s *suite) makeFleet(ctx context.Context) error {
	if err := s.namespace(ctx, crawl); err != nil {
		return err
	}
	if err := s.create(ctx, secret(crawl, "seed", map[string]string{"user-data": userData})); err != nil {
		return err
	}
	for i := range size {
		if err := s.create(ctx, proxy(crawl, fleetName(i), cloudInitFrom("seed"))); err != nil {
			return err
		}
	}
	return s.eventually(ctx, s.settled(crawl, size))
}

// through asks the origin through every pod of the fleet.
func (s *suite) through(scheme string, status int, login *login) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := s.proxies(ctx, crawl)
		if err != nil {
			return err
		}
		for i := range all {
			if err := s.ask(ctx, &all[i], scheme, status, login); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *suite) withCredentials(ctx context.Context) error {
	who := login{"crawler", "e2e-s3cret"}
	p := proxy(crawl, "with-login", authFrom("login"))
	if err := s.create(ctx, secret(crawl, "login", map[string]string{"username": who.username, "password": who.password}), p); err != nil {
		return err
	}
	if err := s.eventually(ctx, s.settled(crawl, size+1)); err != nil {
		return err
	}
	if err := s.kube.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		return err
	}
	err := errors.Join(s.ask(ctx, p, "http", http.StatusProxyAuthRequired, nil), s.ask(ctx, p, "http", http.StatusOK, &who), s.ask(ctx, p, "https", http.StatusOK, &who))
	if err != nil {
		return err
	}
	if err := s.kube.Delete(ctx, p); err != nil {
		return err
	}
	return s.eventually(ctx, s.settled(crawl, size))
}

// cloudInit looks on the node at what the pods of the fleet have mounted.
func (s *suite) cloudInit(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.machines(ctx, crawl)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			files, err := filepath.Glob(filepath.Join(kubeletPods, string(pod.UID), "volumes", "kubernetes.io~secret", "*", "user-data"))
			if err != nil || len(files) != 1 {
				return errors.Join(fmt.Errorf("pod %s has these files user-data: %v", pod.Name, files), err)
			}
			got, err := os.ReadFile(files[0])
			if err != nil {
				return err
			}
			if string(got) != want {
				return fmt.Errorf("pod %s has user data %q", pod.Name, got)
			}
		}
		return nil
	}
}

// rotate changes the Secret, and watches that never more than one Proxy is down: the budget of so small a fleet.
func (s *suite) rotate(ctx context.Context) error {
	before, err := s.uids(ctx)
	if err != nil {
		return err
	}
	const changed = "#cloud-config\nhostname: second\n"
	seed := secret(crawl, "seed", nil)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"user-data":"#cloud-config\nhostname: second\n"}}`))
	if err := s.kube.Patch(ctx, seed, patch); err != nil {
		return err
	}
	most := 0
	err = s.eventually(ctx, func(ctx context.Context) error {
		all, err := s.proxies(ctx, crawl)
		if err != nil {
			return err
		}
		down := 0
		for i := range all {
			if !isReady(&all[i]) {
				down++
			}
		}
		most = max(most, down)
		now, err := s.uids(ctx)
		if err != nil {
			return err
		}
		for uid := range before {
			if now[uid] {
				return fmt.Errorf("pod %s isn't replaced", uid)
			}
		}
		return s.settled(crawl, size)(ctx)
	})
	if err != nil {
		return err
	}
	if most != 1 {
		return fmt.Errorf("%d were down at a time, not 1", most)
	}
	return s.cloudInit(changed)(ctx)
}

// uids are those of the fleet's pods.
func (s *suite) uids(ctx context.Context) (map[types.UID]bool, error) {
	pods, err := s.machines(ctx, crawl)
	all := map[types.UID]bool{}
	for _, p := range pods {
		all[p.UID] = true
	}
	return all, err
}

func (s *suite) deletePod(ctx context.Context) error {
	old, err := s.machine(ctx, crawl, fleetName(0))
	if err != nil {
		return err
	}
	if err := s.kube.Delete(ctx, old); err != nil {
		return err
	}
	return s.eventually(ctx, func(ctx context.Context) error {
		now, err := s.machine(ctx, crawl, fleetName(0))
		if err != nil {
			return err
		}
		if now.UID == old.UID {
			return errors.New("it is still there")
		}
		return s.settled(crawl, size)(ctx)
	})
}
