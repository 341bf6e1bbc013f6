// SPDX-License-Identifier: Apache-2.0

// Package operator is what development programs and tests need of the operator and can't ask it for: its binary, the
// manager as a process, and what the provider local has on disk and in the system's process table. What it counts, it
// counts without the operator's word. It is for programs, not for the product.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	// endEvery paces EndMachines, killAfter is how long it lets a machine end in order.
	endEvery  = 100 * time.Millisecond
	killAfter = 3 * time.Second
)

// Machine is what the provider local has on disk for one instance.
type Machine struct {
	// Dir is its folder, and Name the folder's.
	Dir, Name string
	// PID is the process that holds its lock; 0: there is none.
	PID int
	// Record is empty before there is one, and where it isn't whole.
	Record Record
}

// Record is the part of a machine's record that is of interest outside.
type Record struct {
	Zone    string            `json:"zone"`
	Tags    providers.Tags    `json:"tags"`
	Labels  map[string]string `json:"labels"`
	Address string            `json:"address"`
	Port    int32             `json:"port"`
}

// Owner is the UID of its Proxy; empty before there is a record.
func (m Machine) Owner() string { return m.Record.Tags.OwnerUID }

// ProviderID is what the operator should call it, with the account local and no zones.
func (m Machine) ProviderID() string { return "local://" + m.Name }

// Machines lists all in a state directory, also what was cut short or is going. A state directory that isn't there is
// empty.
func Machines(stateDir string) ([]Machine, error) {
	dirs, err := MachineDirs(stateDir)
	if err != nil {
		return nil, err
	}
	all := make([]Machine, 0, len(dirs))
	for _, dir := range dirs {
		m := Machine{Dir: dir, Name: filepath.Base(dir)}
		if m.Record, err = readRecord(dir); err != nil {
			return nil, err
		}
		pid, held, err := processlock.Holder(lockOf(dir))
		if err != nil {
			return nil, err
		}
		if held {
			m.PID = pid
		}
		all = append(all, m)
	}
	return all, nil
}

// MachineDirs lists the folders STATE/ZONE/NAME, also those of machines on their way out.
func MachineDirs(stateDir string) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(stateDir, "*", "px-*"))
	hidden, hiddenErr := filepath.Glob(filepath.Join(stateDir, "*", ".px-*"))
	if err = errors.Join(err, hiddenErr); err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	return append(dirs, hidden...), nil
}

func lockOf(dir string) string { return filepath.Join(dir, "lock") }

// readRecord reads a record, which may be missing or half written.
func readRecord(dir string) (Record, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "record.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("read record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return Record{}, nil //nolint:nilerr // a record that was cut short is none
	}
	return r, nil
}

// EndMachines ends those that the operator hasn't: first politely, then by force. The operator must have ended, or it
// would start them again.
func EndMachines(ctx context.Context, stateDir string) error {
	ticker := time.NewTicker(endEvery)
	defer ticker.Stop()
	for started, asked := time.Now(), map[string]bool{}; ; {
		all, err := Machines(stateDir)
		if err != nil {
			return err
		}
		living := 0
		for _, m := range all {
			if m.PID == 0 {
				continue
			}
			living++
			switch {
			case time.Since(started) > killAfter:
				m.signal(syscall.SIGKILL)
			case !asked[m.Name]: // a second SIGTERM would cut its grace short
				asked[m.Name] = true
				m.signal(syscall.SIGTERM)
			}
		}
		if living == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end machines: %w; %d are left", ctx.Err(), living)
		case <-ticker.C:
		}
	}
}

// KillMachines kills those that live, and doesn't look what came of it.
func KillMachines(stateDir string) {
	all, err := Machines(stateDir)
	if err != nil {
		return
	}
	for _, m := range all {
		m.signal(syscall.SIGKILL)
	}
}

// signal reaches the process that holds the machine's lock now.
func (m Machine) signal(s syscall.Signal) {
	if pid, held, err := processlock.Holder(lockOf(m.Dir)); err == nil && held && pid > 0 {
		_ = syscall.Kill(pid, s) // the caller looks what came of it
	}
}
