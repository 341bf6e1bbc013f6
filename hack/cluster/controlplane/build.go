// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
)

// modules are the nested Go modules in hack/cluster/modules. Each requires one
// upstream project, so that the builds are pinned and verified by its go.sum,
// and is a module of its own because the projects' requirements conflict with
// each other's and with ours.
type modules struct {
	repository string // root of the checkout
	kubernetes string // version, v1.2.3
	etcd       string
	containerd string
	runc       string
	cni        string
}

// openModules finds the checkout that holds the working directory.
func openModules() (*modules, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the checkout: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		m := &modules{repository: dir}
		if _, err := os.Stat(m.dir("kubernetes")); err == nil {
			return m, m.readVersions()
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("no hack/cluster/modules here or above: run this inside a checkout of proxy-operator, "+
				"or set %s to a folder that holds etcd and kube-apiserver", assetsVariable)
		}
	}
}

func (m *modules) readVersions() error {
	for _, pin := range []struct {
		version      *string
		module, path string
	}{
		{&m.kubernetes, "kubernetes", "k8s.io/kubernetes"},
		{&m.etcd, "etcd", "go.etcd.io/etcd/server/v3"},
		{&m.containerd, "containerd", "github.com/containerd/containerd/v2"},
		{&m.runc, "runc", "github.com/opencontainers/runc"},
		{&m.cni, "cni", "github.com/containernetworking/plugins"},
	} {
		version, err := m.required(pin.module, pin.path)
		if err != nil {
			return err
		}
		*pin.version = version
	}
	return nil
}

// required reads the version that the module's go.mod requires of path.
func (m *modules) required(module, path string) (string, error) {
	file := filepath.Join(m.dir(module), "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read pinned version: %w", err)
	}
	found := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(path) + `\s+(v\d+\.\d+\.\d+\S*)`).FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s requires no version of %s", file, path)
	}
	return string(found[1]), nil
}

func (m *modules) dir(module string) string {
	return filepath.Join(m.repository, "hack", "cluster", "modules", module)
}

// minor is the Kubernetes version without its patch level: v1.2.
func (m *modules) minor() string {
	return m.kubernetes[:strings.LastIndexByte(m.kubernetes, '.')]
}

// versionStamp makes a Kubernetes binary tell its version, which it otherwise
// knows only when built from a git checkout. The date is fixed: the same
// source gives the same binary.
func versionStamp(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var flags strings.Builder
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range []string{
			"gitVersion=" + version, "gitMajor=" + parts[0], "gitMinor=" + parts[1],
			"gitTreeState=clean", "gitCommit=go-module", "buildDate=1970-01-01T00:00:00Z",
		} {
			flags.WriteString(" -X " + pkg + "." + value)
		}
	}
	return flags.String()
}

// build makes the named binaries in dir, leaving out what is there already.
// The caller holds dir's lock. A build that is cut short leaves no binary
// under its final name. takes is how long all of it may take.
func (m *modules) build(ctx context.Context, dir string, p *progress, takes string, names ...string) error {
	var missing []string
	for _, name := range names {
		if !isBinary(filepath.Join(dir, name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return explain("create cache folder", err, "")
	}
	p.printf("building %s into %s: %s once on 2 cores, then never again for these versions", strings.Join(missing, ", "), dir, takes)
	for i, name := range missing {
		r := m.recipe(name)
		err := p.during(fmt.Sprintf("[%d/%d] building %s %s", i+1, len(missing), name, r.version), func() error {
			return m.buildOne(ctx, r, filepath.Join(dir, name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *modules) buildOne(ctx context.Context, r recipe, out string) error {
	partial := filepath.Join(filepath.Dir(out), ".partial-"+filepath.Base(out))
	// The go command won't overwrite what it doesn't take for a binary.
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("remove an earlier half build: %w", err)
	}
	defer func() { _ = os.RemoveAll(partial) }() // gone already if all went well
	what := "build " + filepath.Base(out)
	stderr, err := runGo(ctx, m.dir(r.module), r.cgo, "build", "-tags", r.tags, "-ldflags", r.ldflags, "-o", partial, r.pkg)
	if err != nil {
		return explain(what, err, stderr)
	}
	if err := os.Rename(partial, out); err != nil {
		return explain(what, err, "")
	}
	return nil
}

// runGo runs the go command in dir and returns what it wrote to stderr.
func runGo(ctx context.Context, dir string, cgo bool, args ...string) (stderr string, err error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	// An interrupted go command leaves its work folder behind.
	work, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "control-plane-build-")
	if err != nil {
		return "", fmt.Errorf("create work folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOTMPDIR="+work), goSettings(cgo)...)
	cmd.Stderr = &output
	// In a group of its own it is ended together with the compilers it started. It
	// doesn't outlive us, or it would make its folder anew after who cleans up.
	cmd.SysProcAttr = child.Attributes()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err() // says more than "signal: interrupt"
	}
	return output.String(), err
}

// goSettings shield the builds from the caller's: cross-compiling, a workspace,
// or flags that suit another module. cgo is for what needs a C library.
func goSettings(cgo bool) []string {
	enabled := "CGO_ENABLED=0"
	if cgo {
		enabled = "CGO_ENABLED=1"
	}
	return []string{
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GO111MODULE=on", enabled,
		"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH,
	}
}

// explain adds to an error of a build what the user can do about it.
func explain(what string, err error, stderr string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", what, err)
	}
	text := err.Error() + "\n" + stderr
	for _, known := range []struct{ advice, signs string }{
		{
			`install a C compiler, pkg-config and the headers of libseccomp (Debian: gcc libc6-dev pkg-config libseccomp-dev)`,
			`"(gcc|cc|pkg-config)": executable file not found|Package 'libseccomp'|Package libseccomp|seccomp\.h: No such file`,
		},
		{
			`install Go and put it in PATH, or set ` + assetsVariable + ` to a folder that holds etcd and kube-apiserver`,
			`executable file not found`,
		},
		{
			`free some space (a build needs about 3 GB), or set GOCACHE, GOMODCACHE, GOTMPDIR and XDG_CACHE_HOME to folders that have some`,
			`no space left on device|disk quota exceeded`,
		},
		{
			`the module proxy can't be reached: check the network, and GOPROXY or HTTPS_PROXY if you need them`,
			`dial tcp|no such host|i/o timeout|connection refused|TLS handshake|proxyconnect|module lookup disabled`,
		},
		{
			`too little memory: linking kube-apiserver needs about 2 GB`,
			`signal: killed|cannot allocate memory|out of memory`,
		},
	} {
		if regexp.MustCompile(known.signs).MatchString(text) {
			return fmt.Errorf("%s: %s: %w\n%s", what, known.advice, err, child.Tail(stderr, 5))
		}
	}
	return fmt.Errorf("%s: %w\n%s", what, err, child.Tail(stderr, 20))
}
