// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// machinePIDs lists the processes of the provider local.
func (w *world) machinePIDs() ([]int, error) {
	all, err := operator.Machines(w.StateDir())
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, m := range all {
		if m.PID != 0 {
			pids = append(pids, m.PID)
		}
	}
	return pids, nil
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
