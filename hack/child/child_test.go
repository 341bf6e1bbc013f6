// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	patience = 20 * time.Second
	poll     = 10 * time.Millisecond
)

func TestAChildIsEndedInOrderOrByForce(t *testing.T) {
	cases := map[string]struct {
		why, script, how string
		grace            time.Duration
		exit             int
	}{
		"one that obeys": {
			why:    "it has its grace to end in order",
			script: "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done", grace: patience, how: "x has ended: up", exit: 3,
		},
		"one that doesn't": {
			why:    "nobody waits for ever",
			script: "trap '' TERM; echo up; while :; do sleep 0.05; done", grace: poll, how: "x was ended by another (signal: killed)", exit: -1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			x, err := Start(Command{Name: "x", Path: "/bin/sh", Args: []string{"-c", c.script}, Log: log})
			require.NoError(t, err)
			require.Eventually(t, func() bool { return x.LastLines(1) == "up" }, patience, poll)
			require.False(t, x.Ended())
			group, err := syscall.Getpgid(x.PID)
			require.NoError(t, err)
			require.Equal(t, x.PID, group, "Ctrl-C is for the program, not for its children")
			require.NoError(t, x.End(c.grace), c.why)
			require.True(t, x.Ended())
			require.Equal(t, c.exit, x.ExitCode())
			require.EqualError(t, x.How(), c.how)
			require.NoError(t, x.Signal(syscall.SIGKILL), "one that has ended is left alone")
		})
	}
}

func TestAChildHasTheFolderTheEnvironmentAndTheLogOfItsCommand(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(log, []byte("earlier\n"), 0o600))
	x, err := Start(Command{Name: "x", Path: "/bin/sh", Args: []string{"-c", `echo "$A in $(pwd)"; echo bad >&2`}, Env: []string{"A=b"}, Dir: dir, Log: log})
	require.NoError(t, err)
	require.Zero(t, x.ExitCode())
	require.NoError(t, x.Err())
	where, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.Equal(t, "earlier\nb in "+where+"\nbad\n", x.Output())
	require.Equal(t, "bad", Tail(x.Output(), 1))

	_, err = Start(Command{Name: "x", Path: "/no/such/binary", Log: log})
	require.ErrorContains(t, err, "start x")
}

func TestAnEndThatNobodyExpectsIsTold(t *testing.T) {
	start := func() *Child {
		x, err := Start(Command{Name: "x", Path: "/bin/sleep", Args: []string{"60"}, Log: filepath.Join(t.TempDir(), "log")})
		require.NoError(t, err)
		return x
	}
	told := make(chan error, 2)
	unexpected, expected := start(), start()
	unexpected.FailOnEnd(func(err error) { told <- err })
	stop := expected.FailOnEnd(func(err error) { told <- err })
	stop()
	require.NoError(t, expected.Kill())
	require.NoError(t, unexpected.Kill())
	require.EqualError(t, <-told, "x was ended by another (signal: killed)")
	require.Never(t, func() bool { return len(told) > 0 }, 10*poll, poll)
}
