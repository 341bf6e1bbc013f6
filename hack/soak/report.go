// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	described = 10 // Proxies; they mostly fail for one reason
	lastLines = 8  // of the log, for each
)

// describe tells all that is known of what is wrong: the object, the machines, and what the operator wrote about it.
func (s *soak) describe(now *seen, v verdict) {
	for _, stray := range v.stray {
		s.tell("LEFT OVER: %s", stray)
	}
	log := ""
	if s.Launched() {
		log = s.Manager.Output()
	}
	for n, name := range slices.Sorted(maps.Keys(v.wrong)) {
		if n == described {
			s.tell("and %d more", len(v.wrong)-described)
			break
		}
		s.tell("WRONG: %s: %s", name, strings.Join(v.wrong[name], "; "))
		for i := range now.proxies {
			if p := &now.proxies[i]; p.Name == name {
				s.tell("  object: %s", show(p))
			}
		}
		uid := string(s.wanted.copy().proxies[name])
		for _, m := range now.folders {
			if m.Owner() == uid {
				s.tell("  machine: %+v", m)
			}
		}
		for _, line := range linesAbout(log, name, lastLines) {
			s.tell("  log: %s", line)
		}
	}
}

// show is a Proxy without what says nothing.
func show(p *v1alpha1.Proxy) string {
	p = p.DeepCopy()
	p.ManagedFields = nil
	raw, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// linesAbout are the last lines of a log that name the Proxy.
func linesAbout(log, name string, most int) []string {
	var about []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"`+name+`"`) {
			about = append(about, strings.TrimSpace(line))
		}
	}
	return about[max(0, len(about)-most):]
}

// deleteProxies deletes all that there are.
func (s *soak) deleteProxies(ctx context.Context) error {
	var list v1alpha1.ProxyList
	if err := s.kube.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list Proxies: %w", err)
	}
	var errs []error
	for i := range list.Items {
		p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: list.Items[i].Name}}
		errs = append(errs, client.IgnoreNotFound(s.kube.Delete(ctx, p)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete Proxies: %w", err)
	}
	return nil
}
