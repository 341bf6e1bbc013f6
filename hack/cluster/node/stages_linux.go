// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The program starts itself again in these roles, most with the node's folder as argument.
const (
	stageLaunch  = "node-launch"  // becomes the first process inside
	stageInit    = "node-init"    // is it: furnishes the namespaces and reaps orphans
	stageRun     = "node-run"     // starts what runs there
	stageEnter   = "node-enter"   // goes inside, and waits there for
	stageExec    = "node-exec"    // which becomes a program that was to be run inside
	stageJanitor = "node-janitor" // stays outside and cleans up

	// reportFD is the pipe to who started the node.
	reportFD = 3
)

// IsStage reports whether a program was started by this package in one of its roles. It must then do nothing but call
// Stage.
func IsStage(args []string) bool {
	if len(args) < 2 {
		return false
	}
	switch args[0] {
	case stageLaunch, stageInit, stageRun, stageEnter, stageExec, stageJanitor:
		return true
	}
	return false
}

// Stage does what such a role takes. Those that become another program return only with an error.
func Stage(args []string) error {
	h := home{args[1]}
	switch args[0] {
	case stageLaunch:
		return launch(h)
	case stageInit:
		return reported(initialize(h))
	case stageRun:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		return reported(serve(ctx, h))
	case stageEnter:
		return enter(args[1:])
	case stageExec:
		return become(args[1], args[2:])
	default:
		return h.clean()
	}
}

// launch waits until it is in the node's cgroups, makes them the roots of its own view, and becomes the first process.
func launch(h home) error {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return reported(fmt.Errorf("wait for the cgroups: %w", err))
	}
	self, err := os.Executable()
	if err != nil {
		return reported(err)
	}
	// A thread unshares for itself alone, and ends with its owner alone; what it becomes has both.
	runtime.LockOSThread()
	if err := endWithOwner(reportFD); err != nil {
		return err // nobody is left to tell
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return reported(fmt.Errorf("make a cgroup namespace: %w", err))
	}
	return reported(syscall.Exec(self, []string{self, stageInit, h.dir}, os.Environ()))
}

// endWithOwner ties the thread to who started the process, and fails if that one has gone: reports is a pipe that it reads. What
// the kernel was asked for when the process was made holds for its first thread, and Go may go on in another one: a whole node
// outlived its owner, now and then.
func endWithOwner(reports int32) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the owner: %w", err)
	}
	pipe := []unix.PollFd{{Fd: reports}}
	if _, err := unix.Poll(pipe, 0); err != nil {
		return fmt.Errorf("end with the owner: %w", err)
	}
	if pipe[0].Revents&unix.POLLERR != 0 {
		return errors.New("end with the owner: it has ended")
	}
	return nil
}

// reported tells an error to who started the node.
func reported(err error) error {
	if err != nil {
		tell(report{Error: err.Error()})
	}
	return err
}

func tell(r report) {
	text, err := json.Marshal(r)
	if err == nil {
		// Who started the node may have gone, and then this process is about to be killed.
		_, _ = syscall.Write(reportFD, append(text, '\n'))
	}
}

// initialize furnishes the namespaces, has another process run the node, and reaps orphans until that one ends: containers
// leave theirs to the first process.
func initialize(h home) error {
	var c config
	if err := h.load(settings, &c); err != nil {
		return err
	}
	if err := errors.Join(furnish(c), makeNetwork()); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	// Not by os/exec, which would reap too.
	pid, err := syscall.ForkExec(self, []string{self, stageRun, h.dir}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), os.Stdout.Fd(), os.Stderr.Fd(), reportFD},
	})
	if err != nil {
		return fmt.Errorf("run the node: %w", err)
	}
	// The pipe ends with the process that writes to it.
	if err := syscall.Close(reportFD); err != nil {
		return fmt.Errorf("run the node: %w", err)
	}
	for {
		var status syscall.WaitStatus
		switch ended, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for processes: %w", err)
		case ended == pid:
			return fmt.Errorf("the node ended with status %d", status.ExitStatus())
		}
	}
}
