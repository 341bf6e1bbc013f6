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

// child is a process that the bench started and will end.
type child struct {
	process *os.Process
	log     string        // file with its output
	done    chan struct{} // closed when it has ended
	err     error         // how it ended; read only after done
}

// startChild starts the binary with its output in log. It has a group of its own, so that Ctrl-C leaves it to the bench
// to end it in order, and on Linux it doesn't outlive a bench that is killed.
func startChild(log, binary string, args ...string) (*child, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	defer func() { _ = out.Close() }()   // the child has its own
	cmd := exec.Command(binary, args...) //nolint:noctx // it outlives the measurements and is ended by end
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()
	c := &child{log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel ties the child to the thread that started it (golang/go#27505): keep that thread until it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		c.process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return c, nil
}

// end asks the process to end, kills it after grace, and returns when it is gone.
func (c *child) end(grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	if err := c.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", c.log, err)
	}
	select {
	case <-c.done:
		return nil
	case <-timer.C:
	}
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", c.log, err)
	}
	<-c.done
	return nil
}

// lastLines returns the end of the output.
func (c *child) lastLines(n int) string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
