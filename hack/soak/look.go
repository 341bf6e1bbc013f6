// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// seen is what there is: what the API server has, the folders of the machines, and those that run by the process table.
type seen struct {
	proxies []v1alpha1.Proxy
	folders []operator.Machine
	running []operator.Machine
	inputs  map[string]inputs // by folder
}

// inputs are what a machine was made from besides its record.
type inputs struct {
	userData string
	login    login
}

// look asks everybody but the operator.
func (s *soak) look(ctx context.Context) (*seen, error) {
	var list v1alpha1.ProxyList
	if err := s.kube.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Proxies: %w", err)
	}
	folders, err := operator.Machines(s.StateDir())
	if err != nil {
		return nil, err
	}
	running, err := operator.RunningMachines(ctx, s.StateDir())
	if err != nil {
		return nil, err
	}
	now := &seen{proxies: list.Items, folders: folders, running: running, inputs: map[string]inputs{}}
	for _, m := range folders {
		if now.inputs[m.Dir], err = readInputs(m.Dir); err != nil {
			return nil, err
		}
	}
	return now, nil
}

func readInputs(dir string) (in inputs, err error) {
	for path, to := range map[string]*string{
		"user-data": &in.userData, "auth/username": &in.login.username, "auth/password": &in.login.password,
	} {
		raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return in, fmt.Errorf("read what a machine was made from: %w", err)
		}
		*to = string(raw)
	}
	return in, nil
}

func (s *seen) summary() string {
	ready, deleting, paused := 0, 0, 0
	for i := range s.proxies {
		p := &s.proxies[i]
		if operator.IsReady(p) {
			ready++
		}
		if !p.DeletionTimestamp.IsZero() {
			deleting++
		}
		if isPaused(p) {
			paused++
		}
	}
	return fmt.Sprintf("%d Proxies (%d Ready, %d deleting, %d paused), %d machines", len(s.proxies), ready, deleting, paused, len(s.running))
}
