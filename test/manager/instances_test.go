// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one of the machine's.
type process struct {
	pid  int
	args []string
}

// processes lists those of the machine whose command lines mention path, from the system itself.
func processes(path string) ([]process, error) {
	all, err := procProcesses()
	if errors.Is(err, fs.ErrNotExist) { // not Linux
		all, err = psProcesses()
	}
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return slices.DeleteFunc(all, func(p process) bool {
		return p.pid == os.Getpid() || !slices.ContainsFunc(p.args, func(a string) bool { return strings.Contains(a, path) })
	}), nil
}

func procProcesses() ([]process, error) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended meanwhile
		}
		var args []string
		for a := range bytes.SplitSeq(raw, []byte{0}) {
			args = append(args, string(a))
		}
		all = append(all, process{pid, args})
	}
	return all, nil
}

func psProcesses() ([]process, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=,args=").Output() //nolint:noctx // ps never waits
	if err != nil {
		return nil, err
	}
	var all []process
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			all = append(all, process{pid, fields[1:]})
		}
	}
	return all, nil
}

// instance is a forward proxy of the provider local, as disk and kernel show it.
type instance struct {
	name  string // of its folder
	owner string // UID of its Proxy; empty when there is no record
	pid   int
}

// instances lists the forward-proxy processes of a state directory, each with the owner that its record names.
func instances(state string) ([]instance, error) {
	running, err := processes(state + string(filepath.Separator))
	if err != nil {
		return nil, err
	}
	var all []instance
	for _, p := range running {
		i := slices.Index(p.args, "--lock-file")
		if len(p.args) < 2 || p.args[1] != "forward-proxy" || i < 0 || i+1 == len(p.args) {
			continue
		}
		dir := filepath.Dir(p.args[i+1])
		all = append(all, instance{name: filepath.Base(dir), owner: ownerOf(dir), pid: p.pid})
	}
	return all, nil
}

// ownerOf reads a record; one that is gone or not whole names nobody.
func ownerOf(dir string) string {
	var record struct {
		Tags struct {
			OwnerUID string `json:"ownerUID"`
		} `json:"tags"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "record.json"))
	if err != nil || json.Unmarshal(raw, &record) != nil {
		return ""
	}
	return record.Tags.OwnerUID
}

// folders lists what the state directory holds of instances, also of those that are on their way out.
func folders(state string) ([]string, error) {
	seen, err := filepath.Glob(filepath.Join(state, "*", "px-*"))
	hidden, hiddenErr := filepath.Glob(filepath.Join(state, "*", ".px-*"))
	return append(seen, hidden...), errors.Join(err, hiddenErr)
}

// killProcesses kills all that mention the path, and says which there were: a test has to end its own.
func killProcesses(path string) error {
	left, err := killOnce(path)
	if err != nil || len(left) == 0 {
		return err
	}
	errs := []error{fmt.Errorf("%d processes were left over: %v", len(left), left)}
	for deadline := time.Now().Add(patience); len(left) > 0; {
		if time.Now().After(deadline) {
			return errors.Join(append(errs, fmt.Errorf("and these can't be killed: %v", left))...)
		}
		<-time.After(50 * time.Millisecond)
		if left, err = killOnce(path); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func killOnce(path string) ([]process, error) {
	left, err := processes(path)
	// etcd and kube-apiserver run from folders of their own; their flags name the audit log.
	left = slices.DeleteFunc(left, func(p process) bool { return p.args[0] != cluster.binary })
	for _, p := range left {
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return left, err
		}
	}
	return left, err
}
