// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// manager is one run of `proxy-operator manager`.
type manager struct {
	*child.Child
	t       *testing.T
	probes  string // addresses
	metrics string
	judge   string
	killed  bool // by the test; else it has to end in order
	lenient bool // the test takes rights away: refusals may be in the log
}

// start runs a manager for the fleet and returns when it is ready. It is ended with the test.
func (f *fleet) start(args ...string) *manager {
	f.t.Helper()
	m := f.launch(args...)
	for range 2 { // somebody may take a free port before the manager listens on it
		m.awaitReady()
		if !m.Ended() || !strings.Contains(m.Output(), "address already in use") {
			break
		}
		m = f.launch(args...)
	}
	require.False(f.t, m.Ended(), "the manager ended:\n%s", m.LastLines(20))
	return m
}

// awaitReady returns when the manager is ready or has ended.
func (m *manager) awaitReady() {
	m.t.Helper()
	m.eventually(func(c *assert.CollectT) {
		if !m.Ended() {
			status, body := get(m.t.Context(), "http://"+m.probes+"/readyz", "")
			require.Equal(c, http.StatusOK, status, body)
		}
	})
}

// launch starts the process and doesn't wait.
func (f *fleet) launch(args ...string) *manager {
	f.t.Helper()
	m := &manager{t: f.t, probes: freeAddress(f.t), metrics: freeAddress(f.t), judge: freeAddress(f.t)}
	out, err := os.CreateTemp(f.dir, "manager-*.log")
	require.NoError(f.t, err)
	require.NoError(f.t, out.Close())
	m.Child, err = child.Start(child.Command{
		Name: "the manager", Path: cluster.binary, Args: append(f.args(m), args...), Log: out.Name(),
		Env: []string{"HOME=" + filepath.Join(f.dir, "home"), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"},
	})
	require.NoError(f.t, err)
	f.managers = append(f.managers, m)
	f.t.Cleanup(m.finish)
	return m
}

// finish ends the manager if the test has not, and looks at what it said.
func (m *manager) finish() {
	if !m.Ended() {
		require.NoError(m.t, m.Signal(syscall.SIGTERM))
		m.wait()
	}
	text := m.Output()
	if !m.killed {
		assert.Zero(m.t, m.ExitCode(), "exit code of the manager; the end of its log:\n%s", child.Tail(text, 5))
	}
	for _, bad := range []string{"DATA RACE", "panic", "goroutine "} {
		assert.NotContains(m.t, text, bad)
	}
	if !m.lenient {
		assert.NotContains(m.t, text, "forbidden")
	}
	if m.t.Failed() {
		m.t.Logf("the end of a manager's log:\n%s", child.Tail(text, 300))
	}
}

// wait returns when the process has ended; one that doesn't is a failure and is killed.
func (m *manager) wait() {
	select {
	case <-m.Done():
	case <-time.After(patience):
		m.t.Errorf("the manager doesn't end; the end of its log:\n%s", m.LastLines(20))
		require.NoError(m.t, m.Kill())
	}
}

// kill ends it as a crash does.
func (m *manager) kill() {
	m.killed = true
	require.NoError(m.t, m.Kill())
}

// interrupt sends what Ctrl-C in its terminal sends, to its whole process group.
func (m *manager) interrupt() {
	require.NoError(m.t, ignoreGone(syscall.Kill(-m.PID, syscall.SIGINT)))
	m.wait()
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// lines returns the log's lines as JSON, and those that are none.
func (m *manager) lines() (parsed []map[string]any, other []string) {
	for line := range strings.Lines(m.Output()) {
		var l map[string]any
		if json.Unmarshal([]byte(line), &l) == nil {
			parsed = append(parsed, l)
		} else {
			other = append(other, line)
		}
	}
	return parsed, other
}

func (m *manager) eventually(cond func(c *assert.CollectT)) {
	m.t.Helper()
	eventually(m.t, cond)
}

// eventually waits until cond passes.
func eventually(t *testing.T, cond func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, cond, patience, 100*time.Millisecond)
}

// get asks for a URL of the manager's, with a bearer token unless it is empty. status is 0 if there is no answer.
func get(ctx context.Context, url, token string) (status int, body string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: insecure()}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	var buf bytes.Buffer
	_, err = io.Copy(&buf, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, buf.String()
}

// freeAddress is a port of 127.0.0.1 that nobody listens on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := operator.FreeAddress()
	require.NoError(t, err)
	return address
}
