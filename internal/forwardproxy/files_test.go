// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

// runOn plays the subcommand with its files in a folder and a clock that the test
// turns.
func runOn(t *testing.T, dir string) (clock *clocktesting.FakeClock, cancel func(), ended <-chan error) {
	t.Helper()
	clock = clocktesting.NewFakeClock(start())
	o := optionsIn(dir)
	o.Clock, o.LogOutput = clock, io.Discard
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- forwardproxy.Run(ctx, o) }()
	t.Cleanup(cancel)
	awaitReady(t, dir)
	require.Eventually(t, func() bool { return clock.Waiters() >= 2 }, patience, time.Millisecond, "idle and files")
	return clock, cancel, result
}

func TestAProcessWhoseLockFileIsTakenAwayEnds(t *testing.T) {
	cases := map[string]struct {
		why  string
		take func(state, dir string) error
	}{
		"lock file removed":         {"", func(_, dir string) error { return os.Remove(filepath.Join(dir, "lock")) }},
		"instance folder removed":   {"", func(_, dir string) error { return os.RemoveAll(dir) }},
		"instance folder renamed":   {"a delete that came too early", func(_, dir string) error { return os.Rename(dir, dir+".gone") }},
		"state directory removed":   {"", func(state, _ string) error { return os.RemoveAll(state) }},
		"instance folder is a file": {"", func(_, dir string) error { return replace(dir) }},
		"lock file replaced":        {"another process may hold the new one", func(_, dir string) error { return replace(filepath.Join(dir, "lock")) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			dir := filepath.Join(state, "default", "instance")
			require.NoError(t, os.MkdirAll(dir, 0o700))
			clock, _, ended := runOn(t, dir)
			require.NoError(t, tc.take(state, dir))
			clock.Step(10 * time.Second)
			err := receive(t, ended)
			require.ErrorIs(t, err, forwardproxy.ErrLockLost, tc.why)
			require.ErrorContains(t, err, filepath.Join(dir, "lock"))
		})
	}
}

// replace puts an empty file under the name.
func replace(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

func TestAProcessThatLostItsLockLeavesTheReadyFileOfItsSuccessor(t *testing.T) {
	dir := t.TempDir()
	clock, _, ended := runOn(t, dir)
	require.NoError(t, replace(filepath.Join(dir, "lock")))
	successor := []byte(`{"pid":1}`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ready.json"), successor, 0o600))
	clock.Step(10 * time.Second)
	require.ErrorIs(t, receive(t, ended), forwardproxy.ErrLockLost)
	kept, err := os.ReadFile(filepath.Join(dir, "ready.json"))
	require.NoError(t, err)
	require.Equal(t, successor, kept)
}

func TestARealProcessEndsSoonAfterItsFolderIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "instance")
	require.NoError(t, os.Mkdir(dir, 0o700))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.Background(), self) // #nosec G204 -- the test binary itself
	cmd.Env = append(os.Environ(), runEnv+"="+dir)
	var log bytes.Buffer
	cmd.Stderr = &log
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	awaitReady(t, dir)
	require.NoError(t, os.RemoveAll(dir))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	require.Error(t, receive(t, ended))
	require.Contains(t, log.String(), "lock file was removed or replaced")
	_ = stdin.Close()
}

func TestALostReadyFileIsWrittenAgain(t *testing.T) {
	cases := map[string]struct {
		why  string
		lose func(path string) error
	}{
		"removed":  {"a hand tidied up", os.Remove},
		"emptied":  {"", func(path string) error { return os.Truncate(path, 0) }},
		"changed":  {"", func(path string) error { return os.WriteFile(path, []byte(`{"pid":1}`), 0o600) }},
		"a FIFO":   {"a look must not hang", func(path string) error { _ = os.Remove(path); return syscall.Mkfifo(path, 0o600) }},
		"scribble": {"of the same length", scribble},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "ready.json")
			clock, cancel, ended := runOn(t, dir)
			want := awaitReady(t, dir)
			require.NoError(t, tc.lose(path), tc.why)
			clock.Step(10 * time.Second)
			require.Eventually(t, func() bool {
				info, err := os.Lstat(path)
				if err != nil || !info.Mode().IsRegular() {
					return false
				}
				raw, err := os.ReadFile(path) // #nosec G304 -- a folder of the test's own
				var got forwardproxy.Ready
				return err == nil && json.Unmarshal(raw, &got) == nil && got == want
			}, patience, time.Millisecond, tc.why)
			cancel()
			require.NoError(t, receive(t, ended))
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, left, 1, "only the lock file stays")
		})
	}
}

func scribble(path string) error {
	raw, err := os.ReadFile(path) // #nosec G304 -- a folder of the test's own
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ToUpper(raw), 0o600)
}
