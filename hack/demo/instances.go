// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

// instance is what the provider local has on disk for one: the demo counts these without asking the operator.
type instance struct {
	dir, name string
	owner     string // UID of its Proxy; empty before there is a record
	pid       int    // of the process that holds its lock; 0: there is none
}

// providerID is what the operator should call it.
func (i instance) providerID() string { return "local://" + i.name }

// stage is how far its create has come.
func (i instance) stage() string {
	switch {
	case i.pid != 0:
		return fmt.Sprintf("process %d", i.pid)
	case i.owner != "":
		return "record, no process"
	default:
		return "folder, no record"
	}
}

// instances lists all in the state directory of the account local, also what was cut short or is going.
func instances(stateDir string) ([]instance, error) {
	dirs, err := instanceDirs(stateDir)
	if err != nil {
		return nil, err
	}
	all := make([]instance, 0, len(dirs))
	for _, dir := range dirs {
		i := instance{dir: dir, name: filepath.Base(dir)}
		if i.owner, err = owner(dir); err != nil {
			return nil, err
		}
		pid, held, err := processlock.Holder(lockOf(dir))
		if err != nil {
			return nil, err
		}
		if held {
			i.pid = pid
		}
		all = append(all, i)
	}
	return all, nil
}

// instanceDirs lists the folders STATE/ZONE/NAME.
func instanceDirs(stateDir string) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(stateDir, "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	hidden, err := filepath.Glob(filepath.Join(stateDir, "*", ".*"))
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	return append(dirs, hidden...), nil
}

func lockOf(dir string) string { return filepath.Join(dir, "lock") }

// owner reads the UID of an instance's Proxy from its record, which may be missing or half written.
func owner(dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "record.json")) // #nosec G304 -- in the demo's folder
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read record: %w", err)
	}
	var record struct {
		Tags struct {
			OwnerUID string `json:"ownerUID"`
		} `json:"tags"`
	}
	if err := json.Unmarshal(raw, &record); err != nil {
		return "", nil //nolint:nilerr // a record that was cut short is none
	}
	return record.Tags.OwnerUID, nil
}

// process is one of the machine's.
type process struct {
	pid  int
	args string
}

// processes lists those of the machine, from the system itself, whose command lines mention path.
func processes(ctx context.Context, path string) ([]process, error) {
	all, err := procProcesses("/proc")
	if errors.Is(err, fs.ErrNotExist) { // not Linux
		var out []byte
		if out, err = exec.CommandContext(ctx, "ps", "-axww", "-o", "pid=,args=").Output(); err == nil {
			all = parsePS(out)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []process
	for _, p := range all {
		if strings.Contains(p.args, path) && p.pid != os.Getpid() {
			found = append(found, p)
		}
	}
	return found, nil
}

func procProcesses(proc string) ([]process, error) {
	if _, err := os.Stat(filepath.Join(proc, "self", "cmdline")); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline")) // #nosec G304 -- a number
		if err != nil {
			continue // it has ended meanwhile
		}
		all = append(all, process{pid, string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '}))})
	}
	return all, nil
}

func parsePS(out []byte) []process {
	var all []process
	for line := range strings.Lines(string(out)) {
		first, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pid, err := strconv.Atoi(first); err == nil {
			all = append(all, process{pid, strings.TrimSpace(args)})
		}
	}
	return all
}

// count is what the disk and the system's process table have for one Proxy.
type count struct {
	instances int
	processes int
	id        string // the providerID of the last instance
}

// countByOwner counts by the UID of the Proxy; what belongs to nobody is under the empty one.
func countByOwner(all []instance, running []process) map[string]count {
	counts := map[string]count{}
	known := 0
	for _, i := range all {
		c := counts[i.owner]
		c.instances++
		c.id = i.providerID()
		for _, p := range running {
			if strings.Contains(p.args, lockOf(i.dir)) {
				c.processes++
				known++
			}
		}
		counts[i.owner] = c
	}
	if lost := len(running) - known; lost > 0 {
		c := counts[""]
		c.processes += lost
		counts[""] = c
	}
	return counts
}
