// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// patience is for what takes seconds on a quiet machine.
	patience = 3 * time.Minute
	poll     = 250 * time.Millisecond
)

// suite runs the checks one after the other, and goes on after one that fails.
type suite struct {
	options options
	config  *rest.Config
	kube    client.WithWatch
	typed   kubernetes.Interface // for logs
	clock   clock.WithTicker
	out     io.Writer
	roots   *x509.CertPool // who vouches for the origin

	checks, failed int
}

// printf tells the reader of the run.
func (s *suite) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...) // nobody to tell if this fails
}

// check runs one check, tells how it went, and shows what there is if it failed. It reports whether it held.
func (s *suite) check(ctx context.Context, name string, do func(context.Context) error) bool {
	return s.checkWithin(ctx, patience, name, do)
}

// checkWithin is check with a time limit of its own.
func (s *suite) checkWithin(ctx context.Context, limit time.Duration, name string, do func(context.Context) error) bool {
	if ctx.Err() != nil {
		return false
	}
	s.checks++
	begin := s.clock.Now()
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	err := do(limited)
	took := s.clock.Since(begin).Round(100 * time.Millisecond)
	if err == nil {
		s.printf("ok      %6s  %s", took, name)
		return true
	}
	s.failed++
	s.printf("FAILED  %6s  %s\n%s", took, name, indent(err.Error()))
	s.diagnose(ctx)
	return false
}

// eventually tries until it works; when ctx ends first, it returns the last error.
func (s *suite) eventually(ctx context.Context, try func(context.Context) error) error {
	ticker := s.clock.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-ticker.C():
		}
	}
}
