// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// child is a process that the demo started and will end.
type child struct {
	name string
	pid  int
	log  string        // file with its output
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read only after done
}

// startChild starts the binary with its output appended to log. It has a group of its own, so that Ctrl-C leaves it to
// the demo to end it in order, and on Linux it doesn't outlive a demo that is killed.
func startChild(name, log, binary string, env []string, args ...string) (*child, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) // #nosec G304 -- in the demo's folder
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = out.Close() }() // the child has its own
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	cmd.SysProcAttr = childAttributes()
	c := &child{name: name, log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel ties the child to the thread that started it (golang/go#27505): keep that thread until it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", name, err)
			return
		}
		c.pid = cmd.Process.Pid
		started <- nil
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// end asks the process to end, kills it after grace, and returns when it is gone.
func (c *child) end(grace time.Duration) error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		return c.kill()
	}
}

func (c *child) kill() error {
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.done
	return nil
}

// signal reaches the process as long as it isn't reaped, so that no other one can have its ID.
func (c *child) signal(s syscall.Signal) error {
	if c.ended() {
		return nil
	}
	if err := syscall.Kill(c.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to %s: %w", s, c.name, err)
	}
	return nil
}

// how describes the end of a process that should go on.
func (c *child) how() error {
	var exit *exec.ExitError
	if errors.As(c.err, &exit) && !exit.Exited() {
		return fmt.Errorf("%s was ended by another (%w)", c.name, exit)
	}
	last := strings.TrimSpace(lastLines(c.log, 1))
	if last == "" {
		last = "it says nothing"
	}
	return fmt.Errorf("%s has ended: %s", c.name, last)
}

// lastLines returns the end of a file.
func lastLines(path string, n int) string {
	text, err := os.ReadFile(path) // #nosec G304 -- in the demo's folder
	if err != nil {
		return err.Error()
	}
	return tail(string(text), n)
}

// tail returns the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
