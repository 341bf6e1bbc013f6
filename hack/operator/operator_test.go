// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

const (
	holdEnv  = "OPERATOR_TEST_HOLD" // makes the test binary hold the lock of this file until it is ended
	patience = 20 * time.Second
	poll     = 10 * time.Millisecond
)

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		if _, err := processlock.Acquire(path); err != nil {
			os.Exit(1)
		}
		select {}
	}
	os.Exit(m.Run())
}

// makeMachine makes a folder as provider local does; no owner stands for no record.
func makeMachine(t *testing.T, state, name, owner string) string {
	t.Helper()
	dir := filepath.Join(state, "default", name)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	if owner != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "record.json"), []byte(`{"tags":{"ownerUID":"`+owner+`"}}`), 0o600))
	}
	return dir
}

// holdLock has a process of its own hold the lock of a machine.
func holdLock(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "forward-proxy", "--lock-file", lockOf(dir))
	cmd.Env = append(os.Environ(), holdEnv+"="+lockOf(dir))
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		_, held, err := processlock.Holder(lockOf(dir))
		return err == nil && held
	}, patience, poll)
	return cmd
}

func TestMachinesAreReadAsTheyAreOnDisk(t *testing.T) {
	state := t.TempDir()
	none, err := Machines(filepath.Join(state, "not-there"))
	require.NoError(t, err)
	require.Empty(t, none)

	makeMachine(t, state, "px-begun", "")
	makeMachine(t, state, "px-recorded", "uid-1")
	torn := makeMachine(t, state, "px-torn", "")
	require.NoError(t, os.WriteFile(filepath.Join(torn, "record.json"), []byte(`{"tags":`), 0o600))
	makeMachine(t, state, ".px-going.gone", "uid-2")
	live := holdLock(t, makeMachine(t, state, "px-living", "uid-3"))

	all, err := Machines(state)
	require.NoError(t, err)
	owners, pids := map[string]string{}, map[string]int{}
	for _, m := range all {
		owners[m.Name], pids[m.Name] = m.Owner(), m.PID
	}
	require.Equal(t, map[string]string{
		"px-begun": "", "px-torn": "", "px-recorded": "uid-1", ".px-going.gone": "uid-2", "px-living": "uid-3",
	}, owners, "what is going counts until it is gone")
	require.Equal(t, map[string]int{
		"px-begun": 0, "px-torn": 0, "px-recorded": 0, ".px-going.gone": 0, "px-living": live.Process.Pid,
	}, pids)

	require.NoError(t, EndMachines(t.Context(), state))
	require.Error(t, live.Wait(), "ended by a signal")
}

func TestTheSystemsOwnTableIsRead(t *testing.T) {
	state := t.TempDir()
	dir := makeMachine(t, state, "px-a", "uid")
	cmd := holdLock(t, dir)
	found, err := Processes(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, cmd.Process.Pid, found[0].PID)
	running, err := RunningMachines(t.Context(), state)
	require.NoError(t, err)
	require.Len(t, running, 1)
	require.Equal(t, []string{dir, "uid"}, []string{running[0].Dir, running[0].Owner()})
	require.Equal(t, cmd.Process.Pid, running[0].PID)

	require.NoError(t, os.RemoveAll(dir))
	running, err = RunningMachines(t.Context(), state)
	require.NoError(t, err)
	require.Len(t, running, 1, "a process whose folder is gone still runs")
	require.Empty(t, running[0].Owner())

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	found, err = Processes(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, found)

	_, err = procProcesses(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist, "ps is asked then")
}

func TestTheOutputOfPSIsRead(t *testing.T) {
	got := parsePS("    1 /sbin/launchd\n  402 /bin/po forward-proxy  --x\nno number\n")
	require.Equal(t, []Process{{1, []string{"/sbin/launchd"}}, {402, []string{"/bin/po", "forward-proxy", "--x"}}}, got)
}

func TestWhatAKilledProgramLeftIsSwept(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	old := time.Now().Add(-time.Hour)
	folder := func(name string) string {
		dir := filepath.Join(tmp, name)
		require.NoError(t, os.MkdirAll(stateOf(dir), 0o700))
		return dir
	}
	dead := folder(prefixOf("test") + "dead")
	orphan := holdLock(t, makeMachine(t, stateOf(dead), "px-a", "uid"))
	young := folder(prefixOf("test") + "young")
	others := folder("not-ours")
	alive := folder(prefixOf("test") + "alive")
	holder := holdLock(t, alive) // the lock's name differs, so it is linked
	require.NoError(t, os.Link(lockOf(alive), filepath.Join(alive, aliveLock)))
	for _, dir := range []string{dead, others, alive} {
		require.NoError(t, os.Chtimes(dir, old, old))
	}
	require.Equal(t, []string{dead}, sweepScratch("", "test"))
	require.NoDirExists(t, dead)
	require.Error(t, orphan.Wait(), "its machine is killed")
	require.DirExists(t, young)
	require.DirExists(t, others)
	require.DirExists(t, alive)
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())

	mine, err := newScratch("", "test")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(mine.StateDir(), 0o700))
	require.NoError(t, mine.Remove())
	require.NoDirExists(t, mine.Dir)
}
