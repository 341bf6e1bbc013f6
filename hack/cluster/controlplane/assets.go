// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

const (
	etcd      = "etcd"
	apiserver = "kube-apiserver"
	kubectl   = "kubectl"

	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kubelet           = "kubelet"
	kubeProxy         = "kube-proxy"
	containerd        = "containerd"
	shim              = "containerd-shim-runc-v2"
	ctr               = "ctr"
	runc              = "runc"
	cniPtp            = "ptp"
	cniLoopback       = "loopback"
	cniHostLocal      = "host-local"

	// assetsVariable is the variable by which envtest and setup-envtest name
	// a folder with these binaries.
	assetsVariable = "KUBEBUILDER_ASSETS"

	buildTakes     = "about 7 minutes"
	nodeBuildTakes = "about 4 minutes"
)

// Assets returns a folder that holds etcd, kube-apiserver and kubectl by
// exactly these names. It takes the first of: the folder KUBEBUILDER_ASSETS,
// what an earlier call left in the user's cache, a download by setup-envtest,
// a build from Go modules. The build takes minutes and happens once; log tells
// how it goes. Assets may be called by several processes at a time: one
// builds, the others wait for it. Only the first source works outside a
// checkout of this repository.
func Assets(ctx context.Context, log io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set XDG_CACHE_HOME or HOME): %w", err)
	}
	f := &finder{
		getenv:   os.Getenv,
		lookPath: exec.LookPath,
		cache:    filepath.Join(cache, "proxy-operator", "control-plane"),
		open:     openModules,
		download: downloadAssets,
		progress: newProgress(log),
	}
	return f.find(ctx)
}

// NodeAssets returns a folder that holds what a node needs beside the control
// plane: controller manager, scheduler, kubelet, kube-proxy, containerd with its
// shim and ctr, runc, and network plugins, by the names of their projects. They
// are taken from the user's cache, or built from Go modules. As with Assets,
// several processes may ask for them at a time, and one builds.
func NodeAssets(ctx context.Context, log io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set XDG_CACHE_HOME or HOME): %w", err)
	}
	m, err := openModules()
	if err != nil {
		return "", err
	}
	p := newProgress(log)
	dir := filepath.Join(cache, "proxy-operator", "node", fmt.Sprintf("kubernetes-%s-containerd-%s-runc-%s-cni-%s-%s-%s",
		m.kubernetes, m.containerd, m.runc, m.cni, runtime.GOOS, runtime.GOARCH))
	unlock, err := lock(ctx, dir+".lock", func() { p.printf("another process is providing the node's binaries: waiting for it") })
	if err != nil {
		return "", err
	}
	defer unlock()
	return dir, m.build(ctx, dir, p, nodeBuildTakes, containerd, ctr, shim, runc, cniPtp, cniLoopback, cniHostLocal,
		controllerManager, scheduler, kubelet, kubeProxy)
}

// finder holds what Assets depends on, so that tests can give it a world of
// their own.
type finder struct {
	getenv   func(string) string
	lookPath func(string) (string, error)
	cache    string
	open     func() (*modules, error)
	download func(context.Context, *modules, *progress) (string, error)
	progress *progress
}

func (f *finder) find(ctx context.Context) (string, error) {
	if given := f.given(); given != "" {
		return f.withKubectl(ctx, given)
	}
	m, err := f.open()
	if err != nil {
		return "", err
	}
	built, downloaded := f.builtDir(m), f.downloadedDir(m)
	if dir, ok := firstComplete(built, downloaded); ok {
		return dir, nil
	}
	unlock, err := lock(ctx, built+".lock", f.waiting)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Whoever held the lock may have done the work.
	if dir, ok := firstComplete(built, downloaded); ok {
		return dir, nil
	}
	if dir, ok := f.fetch(ctx, m, downloaded); ok {
		return dir, nil
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("provide control-plane binaries: %w", err)
	}
	return built, m.build(ctx, built, f.progress, buildTakes, etcd, apiserver, kubectl)
}

// given is the folder that the user named, or "" when it doesn't serve.
func (f *finder) given() string {
	dir := f.getenv(assetsVariable)
	if dir == "" {
		return ""
	}
	for _, name := range []string{etcd, apiserver} {
		if !isBinary(filepath.Join(dir, name)) {
			f.progress.printf("%s=%s holds no %s: looking elsewhere", assetsVariable, dir, name)
			return ""
		}
	}
	return dir
}

// withKubectl returns dir if kubectl is in it, else a folder of links to dir's
// binaries and to a kubectl from elsewhere: dir is the user's, so nothing is
// put there.
func (f *finder) withKubectl(ctx context.Context, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", assetsVariable, err)
	}
	if isBinary(filepath.Join(dir, kubectl)) {
		return dir, nil
	}
	found, err := f.otherKubectl(ctx)
	if err != nil {
		return "", fmt.Errorf("%s=%s holds no kubectl: %w", assetsVariable, dir, err)
	}
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, dir) // a hash never fails
	links := filepath.Join(f.cache, fmt.Sprintf("given-%x", sum.Sum64()))
	return links, linkAll(links, filepath.Join(dir, etcd), filepath.Join(dir, apiserver), found)
}

func (f *finder) otherKubectl(ctx context.Context) (string, error) {
	if found, err := f.lookPath(kubectl); err == nil {
		return filepath.Abs(found)
	}
	m, err := f.open()
	if err != nil {
		return "", err
	}
	built := f.builtDir(m)
	unlock, err := lock(ctx, built+".lock", f.waiting)
	if err != nil {
		return "", err
	}
	defer unlock()
	return filepath.Join(built, kubectl), m.build(ctx, built, f.progress, buildTakes, kubectl)
}

// fetch tries the download. Without one there is still the build, so failing
// is worth one line only.
func (f *finder) fetch(ctx context.Context, m *modules, dir string) (string, bool) {
	from, err := f.download(ctx, m, f.progress)
	if err == nil {
		err = linkAll(dir, filepath.Join(from, etcd), filepath.Join(from, apiserver), filepath.Join(from, kubectl))
	}
	if err == nil && !complete(dir) {
		err = errors.New("it is incomplete")
	}
	if ctx.Err() != nil {
		return "", false // the caller knows
	}
	if err != nil {
		f.progress.printf("no ready-made download (%s): building from Go modules", lastClause(err))
		return "", false
	}
	return dir, true
}

func (f *finder) waiting() {
	f.progress.printf("another process is providing the control-plane binaries: waiting for it")
}

func (f *finder) builtDir(m *modules) string {
	return filepath.Join(f.cache, fmt.Sprintf("kubernetes-%s-etcd-%s-%s-%s", m.kubernetes, m.etcd, runtime.GOOS, runtime.GOARCH))
}

func (f *finder) downloadedDir(m *modules) string {
	return filepath.Join(f.cache, fmt.Sprintf("downloaded-%s-%s-%s", m.minor(), runtime.GOOS, runtime.GOARCH))
}

func firstComplete(dirs ...string) (string, bool) {
	for _, dir := range dirs {
		if complete(dir) {
			return dir, true
		}
	}
	return "", false
}

func complete(dir string) bool {
	for _, name := range []string{etcd, apiserver, kubectl} {
		if !isBinary(filepath.Join(dir, name)) {
			return false
		}
	}
	return true
}

func isBinary(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && info.Size() > 0
}

// linkAll makes dir hold one link to each target, by the target's name.
func linkAll(dir string, targets ...string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create folder of links: %w", err)
	}
	for _, target := range targets {
		link := filepath.Join(dir, filepath.Base(target))
		// Put in place by renaming: another process may be reading the old link.
		fresh := fmt.Sprintf("%s.%d", link, os.Getpid())
		_ = os.Remove(fresh) // of a killed process that had our ID
		if err := os.Symlink(target, fresh); err != nil {
			return fmt.Errorf("link %s: %w", link, err)
		}
		if err := os.Rename(fresh, link); err != nil {
			return fmt.Errorf("link %s: %w", link, errors.Join(err, os.Remove(fresh)))
		}
	}
	return nil
}
