// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

// instancePIDs lists the processes of the provider local: those that hold the lock of an instance. It asks the disk and
// the kernel, not the operator.
func instancePIDs(stateDir string) ([]int, error) {
	locks, err := filepath.Glob(filepath.Join(stateDir, "*", "*", "lock"))
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	var pids []int
	for _, l := range locks {
		pid, held, err := processlock.Holder(l)
		if err != nil {
			return nil, fmt.Errorf("list instances: %w", err)
		}
		if held {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// killInstances returns when no instance lives. The operator must have ended, or it would start them again.
func killInstances(ctx context.Context, stateDir string) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		pids, err := instancePIDs(stateDir)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill instance: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill instances: %d are left: %w", len(pids), ctx.Err())
		case <-ticker.C:
		}
	}
}

// memory is what a process has in RAM, in bytes. private is the part that no other process shares, such as the pages of
// the binary, which a fleet has once; 0 where the system doesn't tell.
type memory struct{ resident, private float64 }

func memoryOf(pid int) (memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) { // not Linux
		var out []byte
		out, err = exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // ps never waits
		status = append([]byte("VmRSS: "), out...)
	}
	if err != nil {
		return memory{}, fmt.Errorf("measure process %d: %w", pid, err)
	}
	var m memory
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "VmRSS:" && f[0] != "RssAnon:" {
			continue
		}
		kibi, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return memory{}, fmt.Errorf("measure process %d: %w", pid, err)
		}
		if f[0] == "VmRSS:" {
			m.resident = kibi * 1024
		} else {
			m.private = kibi * 1024
		}
	}
	return m, nil
}
