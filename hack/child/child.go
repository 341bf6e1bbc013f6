// SPDX-License-Identifier: Apache-2.0

// Package child runs the processes that development programs and tests start and have to end: the parts of a control
// plane, the operator. It is for programs, not for the product.
package child

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

// Command says what to start.
type Command struct {
	// Name is what errors call the process.
	Name string
	// Path is the binary's, and Args are its arguments, without its name.
	Path string
	Args []string
	// Env is the whole environment; nil stands for that of this process.
	Env []string
	// Dir is the working folder; empty stands for that of this process.
	Dir string
	// Log is the file that the output is appended to.
	Log string
}

// Child is a process that runs or has run. Its methods may be called at any time, and side by side.
type Child struct {
	// PID is the process ID, which is another's once the process has ended; Signal knows.
	PID int

	command Command
	done    chan struct{}
	err     error // how it ended; read only after done
	exit    int   // likewise
}

// Start starts the process. It has a group of its own, so that Ctrl-C leaves it to this program to end it in order, and
// on Linux it doesn't outlive this program, however that ends.
func Start(c Command) (*Child, error) {
	out, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer func() { _ = out.Close() }()     // the child has its own
	cmd := exec.Command(c.Path, c.Args...) //nolint:noctx // it outlives the call and is ended by its methods
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, out, out
	cmd.SysProcAttr = Attributes()
	p := &Child{command: c, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel ties the child to the thread that started it, not to the process (golang/go#27505): keep that thread
		// until it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", c.Name, err)
			return
		}
		p.PID = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		p.exit = cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Name is that of the Command.
func (p *Child) Name() string { return p.command.Name }

// Done is closed when the process has ended, by whatever cause.
func (p *Child) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Child) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode waits for the end; it is -1 if a signal ended the process.
func (p *Child) ExitCode() int {
	<-p.done
	return p.exit
}

// Signal reaches the process as long as it isn't reaped, so that no other one can have its ID. One that has ended is left
// alone without an error.
func (p *Child) Signal(s syscall.Signal) error {
	if p.Ended() {
		return nil
	}
	if err := syscall.Kill(p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to %s: %w", s, p.command.Name, err)
	}
	return nil
}

// End asks the process to end, kills it after grace, and returns when it is gone.
func (p *Child) End(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return p.Kill()
	}
}

// Kill ends the process as a crash does, and returns when it is gone.
func (p *Child) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// FailOnEnd has fail called with How when the process ends, unless stop was called before.
func (p *Child) FailOnEnd(fail func(error)) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-stopped:
		case <-p.done:
			fail(p.How())
		}
	}()
	return func() { close(stopped) }
}

// Err waits for the end and is what exec.Cmd.Wait says of it; nil for exit status 0.
func (p *Child) Err() error {
	<-p.done
	return p.err
}

// How waits for the end and describes that of a process which should have gone on: who ended it, or its last words.
func (p *Child) How() error {
	var exit *exec.ExitError
	if errors.As(p.Err(), &exit) && !exit.Exited() {
		return fmt.Errorf("%s was ended by another (%w)", p.command.Name, exit)
	}
	last := p.LastLines(1)
	if last == "" {
		last = "it says nothing"
	}
	return fmt.Errorf("%s has ended: %s", p.command.Name, last)
}

// Output is all that the log holds, or why it can't be read.
func (p *Child) Output() string {
	text, err := os.ReadFile(p.command.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LastLines returns the end of the output.
func (p *Child) LastLines(n int) string { return Tail(p.Output(), n) }

// Tail returns the last n lines of a text.
func Tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
