// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	becomeTimeout = 10 * time.Second
	becomePoll    = 10 * time.Millisecond
)

// Command prepares a program that runs inside, in the current folder, with kubectl and ctr in its PATH and set up for the
// node. The caller starts it, and signals it by Signal; it doesn't outlive the node.
func (n *Node) Command(ctx context.Context, args ...string) *exec.Cmd {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	pid, err := n.home.firstPID()
	cmd := exec.CommandContext(ctx, n.binary, append([]string{stageEnter, strconv.Itoa(pid), n.binary, dir}, args...)...)
	if err != nil {
		cmd.Err = err
	}
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+n.Kubeconfig(), "NODE_LOGS="+n.Logs(),
		"PATH="+n.config.NodeAssets+":"+n.config.Assets+":"+os.Getenv("PATH"),
		"CONTAINERD_ADDRESS="+containerdSocket, "CONTAINERD_NAMESPACE=k8s.io",
		"CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1", // of cgroup v1, at every ctr
	)
	return cmd
}

// enter becomes nsenter, which starts the program inside as its child and waits. It must not die of a signal that the
// program may survive.
func enter(args []string) error {
	if len(args) < 3 {
		return errors.New("run inside: no program is named")
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("run inside: %w", err)
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	pid, self, rest := args[0], args[1], args[2:]
	return syscall.Exec(nsenter, append([]string{
		"nsenter", "--target", pid, "--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup", "--", self, stageExec,
	}, rest...), os.Environ())
}

// become becomes the program, in the folder.
func become(dir string, args []string) error {
	if len(args) == 0 {
		return errors.New("run inside: no program is named")
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("run inside: %w", err)
	}
	path, err := exec.LookPath(args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return fmt.Errorf("run inside: %w", err)
	}
	// A signal that is caught gets its default back in the program; one that is ignored, as by enter, would stay so.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	return syscall.Exec(path, args, os.Environ())
}

// Signal sends a signal to the program that a started Command runs inside, once it is one: on the way there signals are
// ignored. A Command that doesn't get there is killed, and one that has ended is left alone.
func Signal(cmd *exec.Cmd, s syscall.Signal) error {
	limit, poll := time.NewTimer(becomeTimeout), time.NewTicker(becomePoll)
	defer limit.Stop()
	defer poll.Stop()
	for {
		if errors.Is(cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			return nil
		}
		programs, err := children(cmd.Process.Pid)
		if err != nil {
			return err
		}
		if len(programs) > 0 && !onTheWay(programs[0]) {
			if err := syscall.Kill(programs[0], s); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("signal process %d: %w", programs[0], err)
			}
			return nil
		}
		select {
		case <-poll.C:
		case <-limit.C:
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("signal the program: %w", err)
			}
			return nil
		}
	}
}

// onTheWay reports whether a child of nsenter has yet to become the program: it is a copy of nsenter first, then a stage.
func onTheWay(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return false // it has ended
	}
	return slices.Contains(strings.Split(string(line), "\x00"), stageExec)
}

// children are the processes that have this parent.
func children(parent int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// 4711 (name, which may hold anything) S PARENT ...
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		found = append(found, pid)
	}
	return found, nil
}
