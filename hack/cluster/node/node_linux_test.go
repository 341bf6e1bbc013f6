// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	mountsV1 = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:4 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	mountsV2 = `29 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
`
)

func TestWhereANodesCgroupsAre(t *testing.T) {
	for name, c := range map[string]struct {
		why, mine, mounts string
		want              []hierarchy
	}{
		"several hierarchies": {
			"cgroup v1: below our own in each that is mounted",
			"9:name=systemd:/\n4:memory:/user/7\n3:pids:/\n1:cpu,cpuacct:/\n0::/\n", mountsV1,
			[]hierarchy{
				{"name=systemd", "/sys/fs/cgroup/systemd/n"}, {"memory", "/sys/fs/cgroup/memory/user/7/n"},
				{"cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/n"}, {"", "/sys/fs/cgroup/unified/n"},
			},
		},
		"the one hierarchy of v2": {
			"at its root: ours has processes, and then no children with controllers",
			"0::/user.slice/session-1.scope\n", mountsV2,
			[]hierarchy{{"", "/sys/fs/cgroup/n"}},
		},
		"a part of a hierarchy that is mounted": {
			"as in a container", "4:memory:/docker/abc/job\n2:cpu:/elsewhere\n",
			"35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n36 31 0:33 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
			[]hierarchy{{"memory", "/sys/fs/cgroup/memory/job/n"}, {"cpu", "/sys/fs/cgroup/cpu/n"}},
		},
		"none": {"nothing is mounted", "0::/\n", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, findCgroups(c.mine, c.mounts, "n"), c.why)
		})
	}
}

func TestACgroupIsRemovedWithAllBelow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "n")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "kubepods", "pod1"), 0o750))
	require.NoError(t, removeCgroups([]string{dir, filepath.Join(dir, "gone")}))
	require.NoDirExists(t, dir)
}

func TestEveryFileOfTheNodeCanBeFilled(t *testing.T) {
	for _, name := range []string{"containerd.toml", "cni.conflist", "kubelet.yaml", "kube-proxy.yaml"} {
		out := filepath.Join(t.TempDir(), name)
		require.NoError(t, values{Address: address}.write(name, out))
		require.FileExists(t, out)
	}
}

func TestAFolderThatTheInsideDoesNotSeeIsRefused(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link") // as /var/run is one
	require.NoError(t, os.Symlink("/etc", link))
	for _, dir := range []string{"/run", "/run/user/0", "/var/lib/jenkins/tmp", "/etc/x", link, "/tmp/a:b"} {
		require.ErrorContains(t, visible(dir), "set TMPDIR to another", dir)
	}
	for _, dir := range []string{"/tmp", "/runner/tmp", "/home/etc", "/var/tmp"} {
		require.NoError(t, visible(dir))
	}
}

func TestStagesAreToldFromCommands(t *testing.T) {
	require.True(t, IsStage([]string{stageInit, "/tmp/x"}))
	require.False(t, IsStage([]string{stageInit}))
	require.False(t, IsStage([]string{"up", "--node"}))
	require.False(t, IsStage(nil))
}

func TestANodeThatDiedIsSwept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	left, err := newHome()
	require.NoError(t, err)
	// What a full disk or a power cut leaves, of this version and of older ones.
	for _, torn := range []string{settings, "cgroups.json"} {
		require.NoError(t, os.WriteFile(left.join(torn), []byte(`[{"Contr`), 0o600))
	}
	require.NoError(t, sweep())
	require.DirExists(t, left.dir, "it may be about to start")
	long := left.modified(t)
	require.NoError(t, os.Chtimes(left.dir, long, long))
	require.NoError(t, sweep())
	require.NoDirExists(t, left.dir)
}

func TestANodeWhoseJanitorWasKilledCleansUpItself(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h, err := newHome()
	require.NoError(t, err)
	killed := exec.CommandContext(t.Context(), "sh", "-c", "kill -9 $$")
	owner, err := killed.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, killed.Start())
	n := &Node{home: h, janitor: &janitor{killed, owner}}
	require.NoError(t, n.Stop())
	require.NoDirExists(t, h.dir)
}

// The folder itself is gone: something tidied up /tmp.
func TestTheCgroupsOfANodeAreFoundByItsName(t *testing.T) {
	root := t.TempDir()
	mounts := fmt.Sprintf("31 23 0:28 / %[1]s/no rw - tmpfs tmpfs rw\n32 31 0:29 / %[1]s/cpu rw shared:4 - cgroup cgroup rw,cpu\n"+
		"41 31 0:38 / %[1]s/unified rw - cgroup2 cgroup2 rw\n42 31 0:39 / %[1]s/unmounted rw - cgroup cgroup rw,pids\n", root)
	for _, dir := range []string{"no/n-1", "cpu/user/7/n-1/kubepods/pod1", "cpu/user/7/n-12", "unified/n-1/node"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o750))
	}
	require.NoError(t, home{filepath.Join(root, "gone", "n-1")}.removeFrom(mounts))
	require.NoDirExists(t, filepath.Join(root, "cpu/user/7/n-1"))
	require.NoDirExists(t, filepath.Join(root, "unified/n-1"))
	require.DirExists(t, filepath.Join(root, "cpu/user/7/n-12"), "another node's")
	require.DirExists(t, filepath.Join(root, "no/n-1"), "no cgroup")
}

func TestAFileThatCannotBeSavedWholeIsLeftAsItWas(t *testing.T) {
	h := home{t.TempDir()}
	require.NoError(t, h.save(settings, config{Assets: "a"}))
	require.NoError(t, os.Mkdir(h.join(settings+".partial"), 0o700)) // so that nothing can be written
	require.Error(t, h.save(settings, config{Assets: "b"}))
	var c config
	require.NoError(t, h.load(settings, &c))
	require.Equal(t, "a", c.Assets)
}

// modified is a time so long ago that a folder without an owner is a dead one's.
func (h home) modified(t *testing.T) (ago time.Time) {
	t.Helper()
	info, err := os.Stat(h.dir)
	require.NoError(t, err)
	return info.ModTime().Add(-time.Hour)
}
