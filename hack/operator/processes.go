// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is one of this computer's.
type Process struct {
	PID  int
	Args []string // the first is the binary
}

// Processes lists those, from the system itself, that name path in an argument. This process isn't among them.
func Processes(ctx context.Context, path string) ([]Process, error) {
	all, err := procProcesses("/proc")
	if errors.Is(err, fs.ErrNotExist) { // not Linux
		var out []byte
		if out, err = exec.CommandContext(ctx, "ps", "-axww", "-o", "pid=,args=").Output(); err == nil {
			all = parsePS(string(out))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return slices.DeleteFunc(all, func(p Process) bool {
		return p.PID == os.Getpid() || !slices.ContainsFunc(p.Args, func(a string) bool { return strings.Contains(a, path) })
	}), nil
}

// RunningMachines lists the machines of a state directory that run as processes, each with the record in its folder, if
// that is still there. The process table tells of them, not the locks on disk.
func RunningMachines(ctx context.Context, stateDir string) ([]Machine, error) {
	running, err := Processes(ctx, stateDir+string(filepath.Separator))
	if err != nil {
		return nil, err
	}
	var all []Machine
	for _, p := range running {
		dir, ok := p.machine()
		if !ok {
			continue
		}
		m := Machine{Dir: dir, Name: filepath.Base(dir), PID: p.PID}
		if m.Record, err = readRecord(dir); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// machine is the folder of the machine that the process is.
func (p Process) machine() (dir string, ok bool) {
	i := slices.Index(p.Args, "--lock-file")
	if len(p.Args) < 2 || p.Args[1] != "forward-proxy" || i < 0 || i+1 == len(p.Args) {
		return "", false
	}
	return filepath.Dir(p.Args[i+1]), true
}

func procProcesses(proc string) ([]Process, error) {
	if _, err := os.Stat(filepath.Join(proc, "self", "cmdline")); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil || len(raw) == 0 {
			continue // it has ended meanwhile, or is the kernel's
		}
		all = append(all, Process{pid, strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")})
	}
	return all, nil
}

// parsePS reads the output of ps, which doesn't tell the spaces in an argument from those between two.
func parsePS(out string) []Process {
	var all []Process
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			all = append(all, Process{pid, fields[1:]})
		}
	}
	return all
}
