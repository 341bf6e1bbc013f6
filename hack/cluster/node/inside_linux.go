// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	hostname = "node"
	// state is in memory, so that it ends with the namespaces.
	state = "/run/proxy-operator-node"
)

// machineWide are settings of the kernel that a kubelet insists on, and that no namespace keeps apart.
func machineWide() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// shielded are folders of the machine that parts of a node write to by default.
func shielded() []string { return []string{"/etc", "/opt", "/var/lib"} }

// furnish mounts what a node needs in its own mount namespace.
func furnish(c config) error {
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	// First of all: no mount from here on reaches the machine.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	err := errors.Join(
		mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"),
		mount("tmpfs", "/var/log", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"),
	)
	if err != nil {
		return err
	}
	// Containers see what is mounted here later.
	if err := mount("", "/run", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("make state folder: %w", err)
	}
	return errors.Join(mountCgroups(c.Cgroups), shield(), keepMachineWide())
}

func mount(source, target, system string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, system, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", system, target, err)
	}
	return nil
}

// shield puts a layer over folders of the machine: what is written there stays in memory.
func shield() error {
	for _, dir := range shielded() {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			continue
		}
		layers := filepath.Join(state, "shield", strings.ReplaceAll(dir, "/", "-"))
		upper, work := filepath.Join(layers, "upper"), filepath.Join(layers, "work")
		if err := errors.Join(os.MkdirAll(upper, 0o750), os.MkdirAll(work, 0o750)); err != nil {
			return fmt.Errorf("shield %s: %w", dir, err)
		}
		if err := mount("overlay", dir, "overlay", 0, "lowerdir="+dir+",upperdir="+upper+",workdir="+work); err != nil {
			return fmt.Errorf("%w; containers need it too: the kernel must have overlayfs (modprobe overlay)", err)
		}
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as it is on every machine
			return fmt.Errorf("shield %s: %w", dir, err)
		}
	}
	return nil
}

// keepMachineWide lets a kubelet write files of ours in place of the kernel's settings.
func keepMachineWide() error {
	for _, name := range machineWide() {
		setting, copied := filepath.Join("/proc/sys", name), filepath.Join(state, "sysctl", name)
		value, err := os.ReadFile(setting)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(copied), 0o750), os.WriteFile(copied, value, 0o600))
		}
		if err != nil {
			return fmt.Errorf("shield setting %s: %w", name, err)
		}
		if err := mount(copied, setting, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// mountCgroups mounts the hierarchies as the node sees them: its own cgroups are their roots.
func mountCgroups(groups []hierarchy) error {
	if onlyV2(groups) {
		return mountV2()
	}
	if err := mount("tmpfs", cgroupRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
		return err
	}
	for _, g := range groups {
		system, name, options := "cgroup", g.Controllers, g.Controllers
		switch {
		case name == "":
			system, name = "cgroup2", "unified"
		case strings.HasPrefix(name, "name="):
			name, options = strings.TrimPrefix(name, "name="), "none,"+options
		}
		dir := filepath.Join(cgroupRoot, name)
		if err := os.Mkdir(dir, 0o750); err != nil {
			return fmt.Errorf("mount cgroups: %w", err)
		}
		if err := mount(system, dir, system, 0, options); err != nil {
			return err
		}
		for _, alias := range strings.Split(name, ",") {
			if alias == name {
				continue
			}
			if err := os.Symlink(name, filepath.Join(cgroupRoot, alias)); err != nil {
				return fmt.Errorf("mount cgroups: %w", err)
			}
		}
	}
	return nil
}

// mountV2 mounts the one hierarchy of v2. There a cgroup with children must have no processes, so that those of the node
// move into one of their own.
func mountV2() error {
	if err := mount("cgroup2", cgroupRoot, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	own := hierarchy{Dir: filepath.Join(cgroupRoot, "node")}
	if err := os.Mkdir(own.Dir, 0o750); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if err := enterCgroups([]hierarchy{own}, os.Getpid()); err != nil {
		return err
	}
	return enableControllers(cgroupRoot)
}
