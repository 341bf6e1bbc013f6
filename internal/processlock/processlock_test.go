// SPDX-License-Identifier: Apache-2.0

package processlock_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

// holdEnv makes the test binary play the process that holds a lock.
const holdEnv = "PROCESSLOCK_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		os.Exit(hold(path))
	}
	os.Exit(m.Run())
}

// hold takes the lock, says so on stdout and keeps it until stdin ends.
func hold(path string) int {
	lock, err := processlock.Acquire(path)
	if err != nil {
		_, _ = os.Stdout.WriteString(err.Error() + "\n")
		return 1
	}
	_, _ = os.Stdout.WriteString("held\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if lock.Release() != nil {
		return 1
	}
	return 0
}

// holder is a real process that was asked to take the lock of a path.
type holder struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  string
}

func startHolder(t *testing.T, path string) *holder {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self) // #nosec G204 -- the test binary itself
	cmd.Env = append(os.Environ(), holdEnv+"="+path)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return &holder{cmd: cmd, stdin: stdin, said: said}
}

func (h *holder) pid() int { return h.cmd.Process.Pid }

func TestHolderNamesTheLiveProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	h := startHolder(t, path)
	require.Equal(t, "held\n", h.said)

	pid, held, err := processlock.Holder(path)
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, h.pid(), pid)

	require.NoError(t, h.stdin.Close())
	require.NoError(t, h.cmd.Wait())
	_, held, err = processlock.Holder(path)
	require.NoError(t, err)
	require.False(t, held)
}

func TestLockEndsWithAKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	h := startHolder(t, path)
	require.NoError(t, h.cmd.Process.Kill())
	require.Error(t, h.cmd.Wait(), "killed")

	_, held, err := processlock.Holder(path)
	require.NoError(t, err)
	require.False(t, held)
	lock, err := processlock.Acquire(path)
	require.NoError(t, err)
	require.NoError(t, lock.Release())
}

func TestSecondProcessIsRefusedAndToldWho(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	h := startHolder(t, path)

	_, err := processlock.Acquire(path)
	var held *processlock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, &processlock.HeldError{Path: path, PID: h.pid()}, held)

	// Neither asking nor being refused may have cost the holder its lock.
	pid, isHeld, err := processlock.Holder(path)
	require.NoError(t, err)
	require.True(t, isHeld)
	require.Equal(t, h.pid(), pid)

	require.NoError(t, h.stdin.Close())
	require.NoError(t, h.cmd.Wait())
}

func TestAcquireRefusesOthersWhileThisProcessHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := processlock.Acquire(path)
	require.NoError(t, err)

	h := startHolder(t, path)
	require.Contains(t, h.said, "is held by process")
	require.Error(t, h.cmd.Wait())

	require.NoError(t, lock.Release())
	require.Error(t, lock.Release(), "a second release is a mistake of the caller")
	h = startHolder(t, path)
	require.Equal(t, "held\n", h.said)
	require.NoError(t, h.stdin.Close())
	require.NoError(t, h.cmd.Wait())
}

func TestRemovedFileIsAnotherLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	h := startHolder(t, path)
	require.NoError(t, os.Remove(path))

	_, held, err := processlock.Holder(path)
	require.NoError(t, err)
	require.False(t, held, "the name is free although its old file is locked")
	lock, err := processlock.Acquire(path)
	require.NoError(t, err)
	require.NoError(t, lock.Release())
	require.NoError(t, h.stdin.Close())
	require.NoError(t, h.cmd.Wait())
}

func TestFilesThatCannotBeLocked(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "target"), nil, 0o600))
	require.NoError(t, os.Symlink("target", link))

	cases := map[string]struct{ why, path string }{
		"a symbolic link":       {"a planted link must not lead us to another file", link},
		"a directory":           {"it can't be opened for writing", dir},
		"a folder that is gone": {"Acquire creates files, not folders", filepath.Join(dir, "gone", "lock")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := processlock.Acquire(tc.path)
			require.Error(t, err, tc.why)
			require.ErrorContains(t, err, "acquire process lock")
		})
	}

	_, held, err := processlock.Holder(filepath.Join(dir, "gone", "lock"))
	require.NoError(t, err)
	require.False(t, held)
	_, _, err = processlock.Holder(link)
	require.ErrorContains(t, err, "read holder of process lock")
}

func TestALockKnowsWhetherItsPathStillLeadsToIt(t *testing.T) {
	cases := map[string]struct {
		why  string
		take func(dir string) error
		want bool
	}{
		"nothing happened":     {"", func(string) error { return nil }, true},
		"the file was written": {"its content is nobody's business", func(dir string) error { return os.WriteFile(filepath.Join(dir, "lock"), []byte("1"), 0o600) }, true},
		"the file is gone":     {"", func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) }, false},
		"the folder is gone":   {"", os.RemoveAll, false},
		"the folder was moved": {"nobody looks there", func(dir string) error { return os.Rename(dir, dir+".gone") }, false},
		"the folder is a file": {"", func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "instance")
			require.NoError(t, os.Mkdir(dir, 0o700))
			lock, err := processlock.Acquire(filepath.Join(dir, "lock"))
			require.NoError(t, err)
			require.NoError(t, tc.take(dir))
			named, err := lock.StillNamed()
			require.NoError(t, err, tc.why)
			require.Equal(t, tc.want, named, tc.why)
			require.NoError(t, lock.Release())
		})
	}
}
