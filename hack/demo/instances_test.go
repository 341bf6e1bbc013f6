// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

// makeInstance makes a folder as provider local does; no owner stands for no record.
func makeInstance(t *testing.T, state, name, owner string) string {
	t.Helper()
	dir := filepath.Join(state, "default", name)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	if owner != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "record.json"), []byte(`{"tags":{"ownerUID":"`+owner+`"}}`), 0o600))
	}
	return dir
}

// holdLock has a process of its own hold the lock of an instance.
func holdLock(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "--lock-file="+lockOf(dir))
	cmd.Env = append(os.Environ(), holdEnv+"="+lockOf(dir))
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		_, held, err := processlock.Holder(lockOf(dir))
		return err == nil && held
	}, patience, poll)
	return cmd
}

func TestInstancesAreReadAsTheyAreOnDisk(t *testing.T) {
	state := t.TempDir()
	none, err := instances(filepath.Join(state, "not-there"))
	require.NoError(t, err)
	require.Empty(t, none)

	makeInstance(t, state, "px-begun", "")
	makeInstance(t, state, "px-recorded", "uid-1")
	torn := makeInstance(t, state, "px-torn", "")
	require.NoError(t, os.WriteFile(filepath.Join(torn, "record.json"), []byte(`{"tags":`), 0o600))
	makeInstance(t, state, ".px-going.gone", "uid-2")
	live := holdLock(t, makeInstance(t, state, "px-living", "uid-3"))

	all, err := instances(state)
	require.NoError(t, err)
	stages := map[string]string{}
	for _, i := range all {
		stages[i.name] = i.owner + " " + i.stage()
	}
	require.Len(t, stages, 5)
	require.Equal(t, " folder, no record", stages["px-begun"])
	require.Equal(t, " folder, no record", stages["px-torn"])
	require.Equal(t, "uid-1 record, no process", stages["px-recorded"])
	require.Equal(t, "uid-2 record, no process", stages[".px-going.gone"], "what is going counts until it is gone")
	require.Contains(t, stages["px-living"], "uid-3 process ")
	require.NoError(t, endInstances(t.Context(), state))
	require.Error(t, live.Wait(), "ended by a signal")
}

func TestEveryProcessIsCounted(t *testing.T) {
	all := []instance{{dir: "/s/a", name: "a", owner: "1"}, {dir: "/s/b", name: "b", owner: "1"}, {dir: "/s/c", name: "c", owner: "2"}}
	running := []process{{1, "x --lock-file /s/a/lock"}, {2, "x --lock-file /s/b/lock"}, {3, "x --lock-file /s/gone/lock"}}
	require.Equal(t, map[string]count{
		"1": {instances: 2, processes: 2, id: "local://b"},
		"2": {instances: 1, processes: 0, id: "local://c"},
		"":  {processes: 1},
	}, countByOwner(all, running))
}

func TestTheSystemsOwnTableIsRead(t *testing.T) {
	dir := makeInstance(t, t.TempDir(), "px-a", "")
	cmd := holdLock(t, dir)
	found, err := processes(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, cmd.Process.Pid, found[0].pid)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	found, err = processes(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, found)

	_, err = procProcesses(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist, "ps is asked then")
}

func TestTheOutputOfPSIsRead(t *testing.T) {
	got := parsePS([]byte("    1 /sbin/launchd\n  402 /bin/po forward-proxy  --x\nno number\n"))
	require.Equal(t, []process{{1, "/sbin/launchd"}, {402, "/bin/po forward-proxy  --x"}}, got)
}

func TestWhatAKilledDemoLeftIsSwept(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	old := time.Now().Add(-time.Hour)
	folder := func(name string) string {
		dir := filepath.Join(tmp, name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "instances"), 0o700))
		return dir
	}
	dead := folder(dirPrefix + "dead")
	orphan := holdLock(t, makeInstance(t, filepath.Join(dead, "instances"), "px-a", "uid"))
	young := folder(dirPrefix + "young")
	others := folder("not-ours")
	alive := folder(dirPrefix + "alive")
	holder := holdLock(t, alive) // the lock's name differs, so it is linked
	require.NoError(t, os.Link(lockOf(alive), filepath.Join(alive, dirLock)))
	for _, dir := range []string{dead, others, alive} {
		require.NoError(t, os.Chtimes(dir, old, old))
	}
	var out strings.Builder
	sweepDead(&screen{out: &out})
	require.NoDirExists(t, dead)
	require.Error(t, orphan.Wait(), "its instance is killed")
	require.DirExists(t, young)
	require.DirExists(t, others)
	require.DirExists(t, alive)
	require.Contains(t, out.String(), dead)
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
}

func TestAChildIsEndedInOrderOrByForce(t *testing.T) {
	cases := map[string]struct {
		script, want string
		grace        time.Duration
	}{
		"one that obeys":   {script: "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", grace: patience, want: "x has ended: up"},
		"one that doesn't": {script: "trap '' TERM; echo up; while :; do sleep 0.05; done", grace: poll, want: "x was ended by another (signal: killed)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			child, err := startChild("x", log, "/bin/sh", os.Environ(), "-c", c.script)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return lastLines(log, 1) == "up" }, patience, poll)
			require.False(t, child.ended())
			require.NoError(t, child.end(c.grace))
			require.True(t, child.ended())
			require.EqualError(t, child.how(), c.want)
			require.NoError(t, child.signal(syscall.SIGKILL), "one that has ended is left alone")
		})
	}
	_, err := startChild("x", filepath.Join(t.TempDir(), "log"), "/no/such/binary", nil)
	require.ErrorContains(t, err, "start x")
	require.Equal(t, "b\nc", tail("a\nb\nc\n", 2))
}
