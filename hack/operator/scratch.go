// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

const (
	aliveLock = "alive.lock" // held while the program lives
	// youngest is the age from which a folder without a living program is taken for that of one that was killed.
	youngest = 10 * time.Second
)

// Scratch is the temporary folder of a program that runs the operator. The kernel tells whether the program lives.
type Scratch struct {
	// Dir is the folder.
	Dir  string
	lock *processlock.Lock // never released: it ends with the process
}

// newScratch makes the folder of the program of that name, in parent; empty stands for the system's temporary folder.
func newScratch(parent, program string) (*Scratch, error) {
	dir, err := os.MkdirTemp(parent, prefixOf(program))
	if err != nil {
		return nil, fmt.Errorf("make temporary folder (TMPDIR names another place): %w", err)
	}
	lock, err := processlock.Acquire(filepath.Join(dir, aliveLock))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Scratch{Dir: dir, lock: lock}, nil
}

// StateDir is the provider local's state directory.
func (s *Scratch) StateDir() string { return stateOf(s.Dir) }

// Remove removes the folder. Its machines must have ended.
func (s *Scratch) Remove() error { return os.RemoveAll(s.Dir) }

func prefixOf(program string) string { return "proxy-operator-" + program + "-" }

func stateOf(dir string) string { return filepath.Join(dir, "instances") }

// sweepScratch ends the machines and removes the folders of runs of the program that were killed, and returns those
// folders. It must be called before newScratch.
func sweepScratch(parent, program string) (swept []string) {
	if parent == "" {
		parent = os.TempDir()
	}
	dirs, err := filepath.Glob(filepath.Join(parent, prefixOf(program)+"*"))
	if err != nil {
		return nil
	}
	for _, dir := range dirs {
		if !isDead(dir) {
			continue
		}
		KillMachines(stateOf(dir))
		if err := os.RemoveAll(dir); err == nil {
			swept = append(swept, dir)
		}
	}
	return swept
}

// isDead reports whether dir is the folder of a program of this user that doesn't run any more.
func isDead(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || time.Since(info.ModTime()) < youngest {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return false
	}
	_, held, err := processlock.Holder(filepath.Join(dir, aliveLock))
	return err == nil && !held
}
