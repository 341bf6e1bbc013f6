// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

const (
	homePrefix = "proxy-operator-node-"
	// sweptAfter is the age from which a folder that nobody holds is taken for a dead one's, not for one in the making.
	sweptAfter = 10 * time.Second

	ownerLock   = "owner.lock"   // held by the program that started the node
	janitorLock = "janitor.lock" // held by who cleans up
	initPID     = "init.pid"
	settings    = "settings.json"
	kubeconfig  = "kubeconfig"
	logs        = "logs"
)

// home is the node's folder on the machine: all that there is of it besides processes and cgroups.
type home struct{ dir string }

// config is what the stages inside have to know.
type config struct {
	Assets, NodeAssets string
	AuditPolicy        string
	Images             []string
	Cgroups            []hierarchy
}

func newHome() (home, error) {
	dir, err := os.MkdirTemp("", homePrefix)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, logs), 0o700)
	}
	if err != nil {
		return home{}, fmt.Errorf("make the node's folder: %w", err)
	}
	return home{dir}, nil
}

func (h home) join(name string) string { return filepath.Join(h.dir, name) }

func (h home) log(name string) string { return filepath.Join(h.dir, logs, name+".log") }

// save puts a whole file in place, or none.
func (h home) save(name string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(h.join(name+".partial"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(h.join(name+".partial"), h.join(name))
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	return nil
}

func (h home) load(name string, into any) error {
	text, err := os.ReadFile(h.join(name))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	return nil
}

// firstPID is the first process inside, as the machine numbers it.
func (h home) firstPID() (int, error) {
	text, err := os.ReadFile(h.join(initPID))
	if err != nil {
		return 0, fmt.Errorf("find the node: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// remove removes the cgroups, once their last process has gone, and the folder. It finds the cgroups by their name, which is the
// folder's: no file has to be whole for that, nor the folder there.
func (h home) remove() error {
	mounts, err := os.ReadFile(mountInfo)
	if err != nil {
		return fmt.Errorf("find cgroups: %w", err)
	}
	return h.removeFrom(string(mounts))
}

func (h home) removeFrom(mounts string) error {
	err := removeCgroups(namedCgroups(mounts, filepath.Base(h.dir)))
	if err == nil {
		err = os.RemoveAll(h.dir)
	}
	if err != nil {
		return fmt.Errorf("remove node %s: %w", h.dir, err)
	}
	return nil
}

// homes lists the folders of this machine's nodes, live ones and what dead ones left.
func homes() []home {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), homePrefix+"*"))
	if err != nil {
		return nil // the pattern is well formed
	}
	var all []home
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == os.Geteuid() {
			all = append(all, home{dir})
		}
	}
	return all
}

// owner is the process that started the node, if it lives.
func (h home) owner() (pid int, alive bool) {
	pid, alive, err := processlock.Holder(h.join(ownerLock))
	return pid, alive && err == nil
}

// sweep removes what nodes left whose owner was killed together with its janitor, and which are of some age.
func sweep() error {
	var errs []error
	for _, h := range homes() {
		info, err := os.Stat(h.dir)
		if err == nil && time.Since(info.ModTime()) >= sweptAfter && h.deserted() {
			_, err = h.bury()
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// bury removes what a dead node left, unless somebody else has it. Whoever is about to start a node in this folder finds
// the owner's lock taken, and gives up.
func (h home) bury() (gone bool, err error) {
	lock, err := processlock.Acquire(h.join(ownerLock))
	var held *processlock.HeldError
	switch {
	case errors.As(err, &held):
		return false, nil
	case errors.Is(err, os.ErrNotExist):
		return true, nil // removed in the meantime
	case err != nil:
		return false, err
	}
	return true, errors.Join(h.remove(), lock.Release())
}

// janitor cleans up when its owner has ended, however that was: it is a process of its own, which hears of the end by its
// standard input.
type janitor struct {
	cmd   *exec.Cmd
	owner io.Closer
}

func (h home) startJanitor(binary string) (*janitor, error) {
	cmd := exec.Command(binary, stageJanitor, h.dir) //nolint:noctx // it outlives all else
	// Ctrl-C in the terminal isn't for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	owner, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start janitor: %w", err)
	}
	return &janitor{cmd, owner}, nil
}

// finish has the janitor clean up, and waits for it.
func (j *janitor) finish() error {
	if err := errors.Join(j.owner.Close(), j.cmd.Wait()); err != nil {
		return fmt.Errorf("clean up after the node: %w; remove what is left with: go run ./hack/cluster down", err)
	}
	return nil
}

// clean is what a janitor does.
func (h home) clean() error {
	lock, err := processlock.Acquire(h.join(janitorLock))
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("wait for the owner's end: %w", err)
	}
	return errors.Join(h.remove(), lock.Release())
}

// deserted reports whether nobody runs the node any more, and nobody is about to clean up after it.
func (h home) deserted() bool {
	_, owned := h.owner()
	_, cleaned, err := processlock.Holder(h.join(janitorLock))
	return !owned && !cleaned && (err == nil || errors.Is(err, os.ErrNotExist))
}
