// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	mountInfo  = "/proc/self/mountinfo"
	// emptiedWithin is how long the kernel may take to end the processes of a killed node.
	emptiedWithin = 20 * time.Second
	emptiedPoll   = 50 * time.Millisecond
)

// hierarchy is one cgroup hierarchy of the machine: the only one of cgroup v2, or one of several of v1.
type hierarchy struct {
	// Controllers are those of v1, as /proc/self/cgroup has them: "memory", "cpu,cpuacct", "name=systemd". Empty is v2.
	Controllers string
	// Dir is the node's cgroup in it, a folder of the machine's.
	Dir string
}

// planCgroups says where the node's cgroups are to be, one in every hierarchy that is mounted.
func planCgroups(name string) ([]hierarchy, error) {
	mine, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	mounts, err := os.ReadFile(mountInfo)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	groups := findCgroups(string(mine), string(mounts), name)
	if len(groups) == 0 {
		return nil, errors.New("find cgroups: none is mounted, and a kubelet can't do without")
	}
	return groups, nil
}

func makeCgroups(groups []hierarchy) error {
	for _, g := range groups {
		if err := g.create(onlyV2(groups)); err != nil {
			return err
		}
	}
	return nil
}

// findCgroups says where the node's cgroups are to be. In v1 they are below our own. In v2 a cgroup that has processes
// can't have children with controllers; only the root can.
func findCgroups(mine, mounts, name string) []hierarchy {
	var groups []hierarchy
	for line := range strings.Lines(mine) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		controllers, own := fields[1], fields[2]
		point, root, ok := cgroupMount(mounts, controllers)
		if !ok {
			continue
		}
		below, err := filepath.Rel(root, own)
		if err != nil || strings.HasPrefix(below, "..") {
			below = "." // ours is outside of what is mounted here
		}
		groups = append(groups, hierarchy{Controllers: controllers, Dir: filepath.Join(point, below, name)})
	}
	if onlyV2(groups) {
		point, _, _ := cgroupMount(mounts, "")
		groups[0].Dir = filepath.Join(point, name)
	}
	return groups
}

func onlyV2(groups []hierarchy) bool { return len(groups) == 1 && groups[0].Controllers == "" }

// namedCgroups finds the cgroups of that name, wherever they are below what is mounted here.
func namedCgroups(mounts, name string) []string {
	var found []string
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 || !strings.HasPrefix(after, "cgroup ") && !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		_ = filepath.WalkDir(fields[4], func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir(): // what goes in the meantime isn't ours
				return nil
			case d.Name() == name:
				found = append(found, path)
				return fs.SkipDir
			default:
				return nil
			}
		})
	}
	return found
}

// cgroupMount finds where a hierarchy is mounted, and which part of it. A line of mountinfo: ID, parent, device, root,
// mount point, options, optional fields, "-", file system, source, its options.
func cgroupMount(mounts, controllers string) (point, root string, ok bool) {
	for line := range strings.Lines(mounts) {
		before, after, found := strings.Cut(strings.TrimSpace(line), " - ")
		fields, system := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 5 || len(system) < 3 {
			continue
		}
		switch {
		case controllers == "" && system[0] == "cgroup2":
		case controllers != "" && system[0] == "cgroup" && hasAll(strings.Split(system[2], ","), strings.Split(controllers, ",")):
		default:
			continue
		}
		return fields[4], fields[3], true
	}
	return "", "", false
}

func hasAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func (g hierarchy) create(v2 bool) error {
	if err := os.Mkdir(g.Dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // a cgroup is no secret
		return fmt.Errorf("make cgroup: %w", err)
	}
	if v2 {
		return enableControllers(filepath.Dir(g.Dir))
	}
	if g.Controllers != "cpuset" {
		return nil
	}
	// A cpuset is born without CPUs and takes no process then.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(g.Dir), file))
		if err == nil {
			err = os.WriteFile(filepath.Join(g.Dir, file), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("set up cgroup: %w", err)
		}
	}
	return nil
}

// enableControllers gives the children of a cgroup of v2 all that a kubelet asks for.
func enableControllers(dir string) error {
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("set up cgroup: %w", err)
	}
	for _, c := range strings.Fields(string(available)) {
		if !slices.Contains([]string{"cpu", "cpuset", "io", "memory", "pids", "hugetlb"}, c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o600); err != nil {
			return fmt.Errorf("enable cgroup controller %s below %s: %w", c, dir, err)
		}
	}
	return nil
}

// enterCgroups puts a process into the node's cgroups.
func enterCgroups(groups []hierarchy, pid int) error {
	for _, g := range groups {
		if err := os.WriteFile(filepath.Join(g.Dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroups removes the node's cgroups with all below. Those of processes that are yet to end can't be removed, and
// are tried again.
func removeCgroups(groups []string) error {
	deadline := time.NewTimer(emptiedWithin)
	defer deadline.Stop()
	again := time.NewTicker(emptiedPoll)
	defer again.Stop()
	for {
		err := removeOnce(groups)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-deadline.C:
			return fmt.Errorf("remove cgroups: %w", err)
		}
	}
}

func removeOnce(groups []string) error {
	var errs []error
	for _, g := range groups {
		var dirs []string
		err := filepath.WalkDir(g, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // one that has gone in the meantime is what we want
		})
		errs = append(errs, err)
		slices.Reverse(dirs) // children before their parents
		for _, dir := range dirs {
			if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
