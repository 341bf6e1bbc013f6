// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	operatorLimit = 60 * time.Second // to be ready; it takes one or two
	operatorGrace = 25 * time.Second // its own is 20
	portAttempts  = 3
)

// operator is the manager, which the demo starts more than once.
type operator struct {
	*child
	wanted  atomic.Bool // it should run: its end is a failure
	binary  string
	config  string
	logFile string
	metrics string // address
}

// newOperator writes the configuration with the one account that the samples name.
func newOperator(d *demo) (*operator, error) {
	o := &operator{binary: d.binary, config: filepath.Join(d.dir, "operator.yaml"), logFile: filepath.Join(d.dir, "operator.log")}
	text := fmt.Sprintf("accounts:\n- name: local\n  type: local\n  local:\n    stateDir: %q\n", d.stateDir())
	if err := os.WriteFile(o.config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the operator's configuration: %w", err)
	}
	return o, nil
}

// startOperator returns once the operator sees the cluster.
func (d *demo) startOperator(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		if d.operator.metrics == "" || attempt > 1 { // once found it stays, for whoever watches it
			var err error
			if d.operator.metrics, err = freeAddress(); err != nil {
				return err
			}
		}
		err := d.operator.start(ctx, d)
		// Somebody may take a free port before the operator listens on it.
		if err == nil || attempt == portAttempts || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
}

func (o *operator) start(ctx context.Context, d *demo) (err error) {
	probes, err := freeAddress()
	if err != nil {
		return err
	}
	o.child, err = startChild("the operator", o.logFile, o.binary, d.kube.env, "manager",
		"--config="+o.config, "--kubeconfig="+d.plane.Kubeconfig, "--log-format=console",
		"--health-probe-bind-address="+probes, "--metrics-bind-address="+o.metrics, "--metrics-secure=false")
	if err != nil {
		return err
	}
	d.onAbandon(o.child.abandon)
	err = d.until(ctx, "the operator to be ready", operatorLimit, func(ctx context.Context) (bool, string) {
		if o.ended() {
			return true, ""
		}
		return answersOK(ctx, "http://"+probes+"/readyz")
	})
	if err == nil && o.ended() {
		err = o.how()
	}
	if err != nil {
		return err
	}
	o.wanted.Store(true)
	go func(c *child) {
		<-c.done
		if o.wanted.Load() && !d.staying.Load() {
			d.stop(c.how())
		}
	}(o.child)
	return nil
}

// stopNow kills the operator as a crash or the kernel would.
func (o *operator) stopNow() error {
	o.wanted.Store(false)
	return o.kill()
}

func answersOK(ctx context.Context, url string) (bool, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err.Error()
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return false, cause(err)
	}
	return resp.StatusCode == http.StatusOK, errors.Join(nil, resp.Body.Close(), errors.New(resp.Status)).Error()
}

// freeAddress returns a port of 127.0.0.1 that nobody listens on just now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // a listen on loopback never waits
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// cause is the innermost part of an error, short enough for a table.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
