// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

const (
	ownedHome = "NODE_TEST_HOME" // names the folder that the test's other process owns
	patience  = 20 * time.Second
)

// TestMain is also the other process: it owns a node's folder until it gets a SIGTERM, and cleans up.
func TestMain(m *testing.M) {
	if dir := os.Getenv(ownedHome); dir != "" {
		os.Exit(own(home{dir}))
	}
	os.Exit(m.Run())
}

func own(h home) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if _, err := processlock.Acquire(h.join(ownerLock)); err != nil {
		return 1
	}
	if _, err := os.Stdout.WriteString("owned\n"); err != nil {
		return 1
	}
	<-stop
	if err := h.remove(); err != nil {
		return 1
	}
	return 0
}

// owned is the folder of a node that another process runs.
func owned(t *testing.T) (home, *exec.Cmd) {
	t.Helper()
	h, err := newHome()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), ownedHome+"="+h.dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "owned\n", line)
	return h, cmd
}

func (h home) isReady(t *testing.T) {
	t.Helper()
	require.NoError(t, h.save(kubeconfig, "x"))
}

func TestDownStopsANodeThatIsAboutToStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h, other := owned(t)
	var told bytes.Buffer
	require.NoError(t, h.down(t.Context(), &told))
	require.Equal(t, fmt.Sprintf("stopping node %s of process %d\n", h.dir, other.Process.Pid), told.String())
	require.NoDirExists(t, h.dir)
	require.NoError(t, other.Wait(), "it was asked, not killed")
}

func TestDownRemovesWhatIsLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h, err := newHome()
	require.NoError(t, err)
	var told bytes.Buffer
	require.NoError(t, h.down(t.Context(), &told))
	require.Equal(t, "removing what is left of node "+h.dir+"\n", told.String())
	require.NoDirExists(t, h.dir)
	_, err = processlock.Acquire(h.join(ownerLock))
	require.Error(t, err, "who was about to start gives up")
}

func TestAnOwnerThatCannotBeSeenIsNotSignalled(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	defer signal.Stop(signals)
	for _, pid := range []int{0, -1} {
		require.ErrorIs(t, home{"/tmp/n"}.terminate(pid), errInside)
	}
	require.Never(t, func() bool { return len(signals) > 0 }, 100*time.Millisecond, 10*time.Millisecond)
}

func TestAFolderThatSomebodyHasIsNotRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h, other := owned(t)
	gone, err := h.bury()
	require.NoError(t, err)
	require.False(t, gone)
	require.DirExists(t, h.dir)
	require.NoError(t, h.terminate(other.Process.Pid))
}

func TestOneOfSeveralNodesIsNotGuessed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := theOne(homes())
	require.ErrorContains(t, err, "no node runs here")
	first, firstOwner := owned(t)
	_, err = theOne(homes())
	require.ErrorContains(t, err, "still starting")
	first.isReady(t)
	found, err := theOne(homes())
	require.NoError(t, err)
	require.Equal(t, first, found)
	second, secondOwner := owned(t)
	second.isReady(t)
	_, err = theOne(homes())
	require.ErrorContains(t, err, fmt.Sprintf("%s of process %d", first.dir, firstOwner.Process.Pid))
	require.ErrorContains(t, err, fmt.Sprintf("%s of process %d", second.dir, secondOwner.Process.Pid))
	require.NoError(t, first.down(t.Context(), t.Output()))
	require.NoError(t, second.down(t.Context(), t.Output()))
}

func TestASignalReachesTheProgramAndNotWhoWaitsForIt(t *testing.T) {
	const program = `trap "exit 7" TERM; echo up; while :; do sleep 0.05; done`
	const untrapped = 128 + int(syscall.SIGTERM) // it came before the program had set its trap
	for name, c := range map[string]struct {
		why, script string
		codes       []int
	}{
		"that runs": {"who waits would die of it", `sh -c '` + program + `'; exit $?`, []int{7}},
		"that is on its way": {
			"on the way it is ignored, and would be lost",
			`trap "" TERM; sh -c 'echo up; sleep 0.3; exec "$1"' ` + stageExec + ` ./program; exit $?`,
			[]int{7, untrapped},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			// Ignored signals stay so in a shell; in env's child they don't.
			text := "#!/usr/bin/env -S --default-signal=TERM sh\n" + program + "\n"
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), []byte(text), 0o700)) //nolint:gosec // it has to be executable
			waiting := exec.CommandContext(ctx, "sh", "-c", c.script)
			waiting.Dir = dir
			out, err := waiting.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, waiting.Start())
			_, err = bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.NoError(t, Signal(waiting, syscall.SIGTERM))
			var exit *exec.ExitError
			require.ErrorAs(t, waiting.Wait(), &exit, c.why)
			require.Contains(t, c.codes, exit.ExitCode(), c.why)
		})
	}
}

// TestANodeOutlivedItsOwner: the thread that became its first process wasn't the one that the kernel had been told to end.
func TestANodeOutlivedItsOwner(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = write.Close() })
	signals := make(chan int32)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		var before, after int32
		_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&before)), 0, 0, 0) //nolint:gosec // that is how it is asked
		_ = endWithOwner(int32(write.Fd()))
		_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&after)), 0, 0, 0) //nolint:gosec // the same
		signals <- before
		signals <- after
	}()
	require.Zero(t, <-signals, "another thread than the first")
	require.Equal(t, int32(syscall.SIGKILL), <-signals)

	require.NoError(t, read.Close())
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		ended <- endWithOwner(int32(write.Fd()))
	}()
	require.ErrorContains(t, <-ended, "it has ended")
}
