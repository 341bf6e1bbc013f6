// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABuildThatFailsSaysWhatToDo(t *testing.T) {
	cases := map[string]struct{ stderr, want string }{
		"no module proxy": {
			stderr: `k8s.io/kubernetes: Get "https://proxy/": dial tcp: lookup proxy: no such host`,
			want:   "the module proxy can't be reached: check the network",
		},
		"a full disk": {
			stderr: "compile: writing output: write $WORK/b1/_pkg_.a: no space left on device",
			want:   "free some space",
		},
		"too little memory": {
			stderr: "/go/pkg/tool/link: signal: killed",
			want:   "linking kube-apiserver needs about 2 GB",
		},
		"anything else is shown": {
			stderr: "verifying k8s.io/api@v0.99.1: checksum mismatch",
			want:   "verifying k8s.io/api@v0.99.1: checksum mismatch",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			installFakeGo(t, "fail")
			t.Setenv("FAKE_GO_STDERR", c.stderr)
			_, p := logged()
			dir := t.TempDir()
			err := fakeModules(t).build(t.Context(), dir, p, buildTakes, etcd)
			require.ErrorContains(t, err, "build etcd: ")
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, c.stderr)
			requireEmpty(t, dir)
		})
	}
}

func TestWithoutGoTheErrorSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, p := logged()
	err := fakeModules(t).build(t.Context(), t.TempDir(), p, buildTakes, etcd)
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "install Go and put it in PATH, or set KUBEBUILDER_ASSETS")
}

func TestABuildThatIsInterruptedLeavesNothing(t *testing.T) {
	builds, work := installFakeGo(t, "hang"), t.TempDir()
	t.Setenv("GOTMPDIR", work)
	m, dir := fakeModules(t), t.TempDir()
	_, p := logged()
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.build(ctx, dir, p, buildTakes, etcd, apiserver) }()
	require.Eventually(t, func() bool { return len(builds.built()) == 1 }, patience, poll)
	interrupt()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Len(t, builds.built(), 1, "no further build is begun")
	requireEmpty(t, dir)
	requireEmpty(t, work)
}

// The real go command, on a program small enough for a test: it shows that the
// caller's settings don't reach the build and that the result runs.
func TestTheGoCommandBuildsWhateverTheCallersSettings(t *testing.T) {
	m := fakeModules(t)
	program := "package main\n\nimport \"os\"\n\nvar version string\n\nfunc main() { _, _ = os.Stdout.WriteString(version) }\n"
	require.NoError(t, os.WriteFile(filepath.Join(m.dir("etcd"), "main.go"), []byte(program), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(m.dir("etcd"), "go.mod"), []byte("module example.com/etcd\n\ngo 1.26.0\n"), 0o600))
	t.Setenv("GOOS", "plan9")
	t.Setenv("GOFLAGS", "-mod=vendor")
	t.Setenv("GOWORK", filepath.Join(t.TempDir(), "absent.work"))
	out := filepath.Join(t.TempDir(), "etcd")
	r := recipe{module: "etcd", pkg: "example.com/etcd", ldflags: "-s -w -X main.version=v1.2.3"}
	require.NoError(t, m.buildOne(t.Context(), r, out))
	text, err := exec.Command(out).Output()
	require.NoError(t, err)
	require.Equal(t, "v1.2.3", string(text))
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
