// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	errNoNetwork = errors.New("get index: dial tcp: no such host")
	allBuilt     = []string{"go.etcd.io/etcd/server/v3", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kubectl"}
)

// world is a finder with an empty cache, no network and a fake go command.
type world struct {
	*finder
	modules     *modules
	log         *log
	env         map[string]string
	pathKubectl string
	downloaded  string
	downloads   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{modules: fakeModules(t), env: map[string]string{}}
	var p *progress
	w.log, p = logged()
	w.finder = &finder{
		getenv: func(name string) string { return w.env[name] },
		lookPath: func(string) (string, error) {
			if w.pathKubectl == "" {
				return "", exec.ErrNotFound
			}
			return w.pathKubectl, nil
		},
		cache:    filepath.Join(t.TempDir(), "cache"),
		open:     func() (*modules, error) { return w.modules, nil },
		progress: p,
		download: func(context.Context, *modules, *progress) (string, error) {
			w.downloads++
			if w.downloaded == "" {
				return "", errNoNetwork
			}
			return w.downloaded, nil
		},
	}
	return w
}

func TestAssetsComeFromTheFirstSourceThatHasThem(t *testing.T) {
	cases := map[string]struct {
		why       string
		prepare   func(*testing.T, *world)
		want      func(*world) string
		downloads int
		built     []string
	}{
		"a complete folder named by the user is taken as it is": {
			why: "the user's word comes first, and needs no checkout",
			prepare: func(t *testing.T, w *world) {
				w.env[assetsVariable] = binaries(t, filepath.Join(w.cache, "mine"), etcd, apiserver, kubectl)
				w.open = func() (*modules, error) { return nil, errors.New("no checkout") }
			},
			want: func(w *world) string { return filepath.Join(w.cache, "mine") },
		},
		"a folder without kube-apiserver is passed over": {
			why: "it can't serve; the cache can",
			prepare: func(t *testing.T, w *world) {
				w.env[assetsVariable] = binaries(t, filepath.Join(w.cache, "mine"), etcd)
				binaries(t, w.builtDir(w.modules), etcd, apiserver, kubectl)
			},
			want: func(w *world) string { return w.builtDir(w.modules) },
		},
		"an earlier build is found again": {
			why:     "a build takes minutes",
			prepare: func(t *testing.T, w *world) { binaries(t, w.builtDir(w.modules), etcd, apiserver, kubectl) },
			want:    func(w *world) string { return w.builtDir(w.modules) },
		},
		"an earlier download is found again": {
			why:     "it works without a network from then on",
			prepare: func(t *testing.T, w *world) { binaries(t, w.downloadedDir(w.modules), etcd, apiserver, kubectl) },
			want:    func(w *world) string { return w.downloadedDir(w.modules) },
		},
		"a download is preferred to a build": {
			why: "it takes seconds",
			prepare: func(t *testing.T, w *world) {
				w.downloaded = binaries(t, filepath.Join(w.cache, "store"), etcd, apiserver, kubectl)
			},
			want:      func(w *world) string { return w.downloadedDir(w.modules) },
			downloads: 1,
		},
		"an incomplete download is not believed": {
			why: "nothing would start from it",
			prepare: func(t *testing.T, w *world) {
				w.downloaded = binaries(t, filepath.Join(w.cache, "store"), etcd)
			},
			want:      func(w *world) string { return w.builtDir(w.modules) },
			downloads: 1,
			built:     allBuilt,
		},
		"without any of these all is built": {
			why:       "the way that needs only a module proxy",
			prepare:   func(*testing.T, *world) {},
			want:      func(w *world) string { return w.builtDir(w.modules) },
			downloads: 1,
			built:     allBuilt,
		},
		"a build that was cut short goes on where it stopped": {
			why: "what is finished is worth minutes",
			prepare: func(t *testing.T, w *world) {
				binaries(t, w.builtDir(w.modules), etcd)
				require.NoError(t, os.WriteFile(filepath.Join(w.builtDir(w.modules), ".partial-kube-apiserver"), []byte("half"), 0o600))
			},
			want:      func(w *world) string { return w.builtDir(w.modules) },
			downloads: 1,
			built:     allBuilt[1:],
		},
		"an empty file is not believed to be a binary": {
			why: "a full disk leaves such files",
			prepare: func(t *testing.T, w *world) {
				dir := binaries(t, w.builtDir(w.modules), etcd, apiserver, kubectl)
				require.NoError(t, os.Truncate(filepath.Join(dir, kubectl), 0))
			},
			want:      func(w *world) string { return w.builtDir(w.modules) },
			downloads: 1,
			built:     allBuilt[2:],
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			builds := installFakeGo(t, "succeed")
			w := newWorld(t)
			c.prepare(t, w)
			dir, err := w.find(t.Context())
			require.NoError(t, err, c.why)
			require.Equal(t, c.want(w), dir, c.why)
			require.True(t, complete(dir), c.why)
			require.Equal(t, c.downloads, w.downloads, c.why)
			require.Equal(t, c.built, builds.built(), c.why)
		})
	}
}

func TestAFolderWithoutKubectlIsCompletedElsewhere(t *testing.T) {
	cases := map[string]struct {
		inPath bool
		built  []string
	}{
		"by the kubectl in PATH":                     {inPath: true},
		"by building kubectl alone if PATH has none": {built: allBuilt[2:]},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			builds := installFakeGo(t, "succeed")
			w := newWorld(t)
			given := binaries(t, t.TempDir(), etcd, apiserver)
			w.env[assetsVariable] = given
			if c.inPath {
				w.pathKubectl = filepath.Join(binaries(t, t.TempDir(), kubectl), kubectl)
			}
			for range 2 { // the second call finds the links of the first
				dir, err := w.find(t.Context())
				require.NoError(t, err)
				require.True(t, complete(dir))
				require.NotEqual(t, given, dir)
			}
			require.Equal(t, c.built, builds.built())
			require.NoFileExists(t, filepath.Join(given, kubectl), "the folder is the user's")
		})
	}
}

func TestAMissingDownloadIsWorthOneQuietLine(t *testing.T) {
	installFakeGo(t, "succeed")
	w := newWorld(t)
	_, err := w.find(t.Context())
	require.NoError(t, err)
	require.Contains(t, w.log.String(), "no ready-made download (no such host): building from Go modules\n")
	require.Contains(t, w.log.String(), "about 7 minutes once")
	require.Contains(t, w.log.String(), "[2/3] building kube-apiserver v1.99.1 ...\n")
}

func TestAnInterruptedDownloadIsNotFollowedByABuild(t *testing.T) {
	builds := installFakeGo(t, "succeed")
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(t.Context())
	w.download = func(context.Context, *modules, *progress) (string, error) {
		interrupt()
		return "", ctx.Err()
	}
	_, err := w.find(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, builds.built())
	require.Empty(t, w.log.String())
}

func TestOfTwoCallersOneBuildsAndTheOtherWaits(t *testing.T) {
	builds := installFakeGo(t, "wait")
	first, second := newWorld(t), newWorld(t)
	second.cache, second.modules = first.cache, first.modules
	done := make(chan error, 2)
	call := func(w *world) {
		_, err := w.find(t.Context())
		done <- err
	}
	go call(first)
	require.Eventually(t, func() bool { return len(builds.built()) == 1 }, patience, poll)
	go call(second)
	require.Eventually(t, func() bool { return second.log.String() != "" }, patience, poll)
	require.Equal(t, "another process is providing the control-plane binaries: waiting for it\n", second.log.String())
	builds.letGoOn()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Equal(t, allBuilt, builds.built(), "each binary is built once")
}

func TestOutsideACheckoutTheErrorSaysWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	w := newWorld(t)
	w.open = openModules
	_, err := w.find(t.Context())
	require.ErrorContains(t, err, "run this inside a checkout of proxy-operator, or set KUBEBUILDER_ASSETS")
}

func TestTheModulesOfThisCheckoutAreFoundFromAnySubfolder(t *testing.T) {
	m, err := openModules() // a test runs in its package's folder
	require.NoError(t, err)
	require.Regexp(t, `^v1\.\d+\.\d+$`, m.kubernetes)
	require.Regexp(t, `^v3\.\d+\.\d+$`, m.etcd)
	require.Regexp(t, `^v1\.\d+$`, m.minor())
	for _, module := range []string{"kubernetes", "etcd"} {
		require.FileExists(t, filepath.Join(m.dir(module), "go.sum"), "builds are verified by their checksums")
	}
}
