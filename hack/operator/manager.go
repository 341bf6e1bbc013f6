// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
)

const (
	// Account is the one that a Manager's configuration has.
	Account = "local"
	// LinkLocal is all that a Manager denies to External Proxies: here all proxies are on loopback.
	LinkLocal = "169.254.0.0/16"
	// Grace is for Child.End: what a manager may take to end in order, which is 20 s, and a little more.
	Grace = 25 * time.Second

	readyLimit   = time.Minute // it takes one or two seconds
	readyEvery   = 100 * time.Millisecond
	portAttempts = 3
)

// Manager is how the operator is run on this machine: with one account of the provider local, and its addresses on
// loopback. It may be launched again and again.
type Manager struct {
	// Child is the process of the last launch; nil before the first.
	*child.Child
	// Metrics is the address of its metrics, served in clear. Once chosen it stays over launches.
	Metrics string
	// Judge is the address at which it serves the judge that proxies are probed with; it stays too.
	Judge string
	// Log is the file that all launches write to.
	Log string
	// OnLaunch is told of every process as soon as there is one; nil: nobody is.
	OnLaunch func(*child.Child)

	binary, config, kubeconfig, probes string
}

// NewManager writes the configuration to dir, where the log will be too.
func NewManager(dir, binary, stateDir, kubeconfig string) (*Manager, error) {
	m := &Manager{
		Log: filepath.Join(dir, "operator.log"), binary: binary, config: filepath.Join(dir, "operator.yaml"), kubeconfig: kubeconfig,
	}
	text := fmt.Sprintf("accounts:\n- name: %s\n  type: local\n  local:\n    stateDir: %q\n", Account, stateDir)
	if err := os.WriteFile(m.config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the operator's configuration: %w", err)
	}
	return m, nil
}

// Launch starts the process and doesn't wait until it is ready. args are added to its own.
func (m *Manager) Launch(args ...string) (err error) {
	m.probes = ""
	for _, address := range []*string{&m.probes, &m.Metrics, &m.Judge} {
		if *address != "" {
			continue
		}
		if *address, err = FreeAddress(); err != nil {
			return err
		}
	}
	m.Child, err = child.Start(child.Command{
		Name: "the operator", Path: m.binary, Log: m.Log,
		Args: slices.Concat([]string{
			"manager", "--config=" + m.config, "--kubeconfig=" + m.kubeconfig,
			"--health-probe-bind-address=" + m.probes, "--metrics-bind-address=" + m.Metrics, "--metrics-secure=false",
			"--judge-bind-address=" + m.Judge, "--health-deny-cidr=" + LinkLocal,
		}, args),
	})
	if err == nil && m.OnLaunch != nil {
		m.OnLaunch(m.Child)
	}
	return err
}

// LaunchReady launches the manager and returns once it sees the cluster.
func (m *Manager) LaunchReady(ctx context.Context, args ...string) error {
	for attempt := 1; ; attempt++ {
		err := m.Launch(args...)
		if err == nil {
			err = m.awaitReady(ctx)
		}
		if err == nil || attempt == portAttempts || !m.LostPort() {
			return err
		}
		m.Metrics, m.Judge = "", ""
	}
}

// LostPort reports whether the process has ended because somebody took its free port before it listened there. It may
// simply be launched again.
func (m *Manager) LostPort() bool {
	return m.Child != nil && m.Ended() && strings.Contains(m.LastLines(1), "address already in use")
}

func (m *Manager) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not there after %s", readyLimit))
	defer cancel()
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for last := errors.New("no answer"); ; {
		err := answersOK(ctx, "http://"+m.probes+"/readyz")
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // one that was cut short tells nothing
		}
		select {
		case <-m.Done():
			return m.How()
		case <-ctx.Done():
			return fmt.Errorf("wait for the operator to be ready: %w; so far: %w", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

func answersOK(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// FreeAddress returns a port of 127.0.0.1 that nobody listens on just now.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // a listen on loopback never waits
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}
