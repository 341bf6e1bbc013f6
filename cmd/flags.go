// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/proxy-operator/proxy-operator/providers/kubernetes"
)

// podNamespaceFile is there in a pod, and tells leader election its namespace.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// validate refuses flags that can't work, before anything is started: what the libraries below say of them names no flag,
// or comes too late.
func (o *managerOptions) validate(ctx context.Context) error {
	if o.maxConcurrentReconciles < 1 {
		return fmt.Errorf("--max-concurrent-reconciles=%d: write a number of at least 1", o.maxConcurrentReconciles)
	}
	if o.instance == "" {
		return errors.New("--instance is empty: write a name, or leave it out")
	}
	if len(validation.IsDNS1123Label(o.instance)) > 0 {
		return fmt.Errorf("--instance=%s: write at most 63 lower-case letters, digits and hyphens", o.instance)
	}
	if want := kubernetes.ImageProblem(o.proxyImage); want != "" {
		return fmt.Errorf("--proxy-image=%s: %s", o.proxyImage, want)
	}
	if err := errors.Join(o.validateNamespaces(), o.health.validate()); err != nil {
		return err
	}
	if o.operatorNamespace != "" && len(validation.IsDNS1123Label(o.operatorNamespace)) > 0 {
		return fmt.Errorf("--operator-namespace=%s: write the name of a namespace", o.operatorNamespace)
	}
	if o.leaderElect && o.leaderElectionNamespace == "" {
		if _, err := os.Stat(podNamespaceFile); err != nil {
			return errors.New("--leader-elect outside a pod needs --leader-election-namespace: write the namespace of the lease")
		}
	}
	if err := o.validateCertificate(); err != nil {
		return err
	}
	return o.validateAddresses(ctx)
}

func (o *managerOptions) validateAddresses(ctx context.Context) error {
	err := errors.Join(free(ctx, "--metrics-bind-address", o.metricsAddress), free(ctx, "--health-probe-bind-address", o.probeAddress))
	if o.health.servesJudge() {
		err = errors.Join(err, free(ctx, "--judge-bind-address", o.health.judgeAddress))
	}
	return err
}

func (o *managerOptions) validateNamespaces() error {
	all := strings.Join(o.watchNamespaces, ",")
	if o.watchNamespacesSet && all == "" {
		return errors.New("--watch-namespaces is empty: write names with commas between, or leave it out to watch all namespaces")
	}
	for _, ns := range o.watchNamespaces {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			return fmt.Errorf("--watch-namespaces=%s: %q is not the name of a namespace; write names with commas between, without spaces", all, ns)
		}
	}
	return nil
}

func (o *managerOptions) validateCertificate() error {
	if o.metricsCertPath == "" {
		return nil
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(o.metricsCertPath, name)); err != nil {
			return fmt.Errorf("--metrics-cert-path=%s: %w; name a folder with tls.crt and tls.key, or leave it out", o.metricsCertPath, err)
		}
	}
	return nil
}

// free reports why nobody could listen on an address; "0" is none.
func free(ctx context.Context, flag, address string) error {
	if address == "0" {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(`%s=%s: %w; another manager may be running on this machine: end it, or write another HOST:PORT, or "0" for none`, flag, address, err)
	}
	if err != nil {
		return fmt.Errorf(`%s=%s: %w; write another HOST:PORT, or "0" for none`, flag, address, err)
	}
	return l.Close()
}
