// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a running etcd or kube-apiserver.
type process struct {
	name string
	pid  int
	log  string        // file with its output
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read only after done
}

// startProcess starts binary with its output going to the file log. It gets a
// group of its own, so that a Ctrl-C at the terminal leaves it to us to end it
// in order, and on Linux dies with this process even if that is killed.
func startProcess(binary, log string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(binary), log: log, done: make(chan struct{})}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	defer func() { _ = output.Close() }() // the child has its own
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Dir = filepath.Dir(log)
	// etcd takes any flag from ETCD_*: only what is on the command line counts.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = processAttributes()

	started := make(chan error, 1)
	go func() {
		// The kernel ties the child to the thread that started it, not to the
		// process (golang/go#27505): keep that thread until the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", p.name, err)
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop ends the process and returns when it is gone: politely first, by force
// after grace.
func (p *process) stop(grace time.Duration) error {
	if p.hasEnded() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal reaches the whole group. One that is gone already is fine.
func (p *process) signal(s syscall.Signal) error {
	if err := syscall.Kill(-p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
}

// ended describes how a process ended that should run, with the last lines it
// wrote. Only for use after done.
func (p *process) ended() error {
	state := "exit status 0"
	if p.err != nil {
		state = p.err.Error()
	}
	return fmt.Errorf("%s ended (%s); its last lines:\n%s", p.name, state, indent(lastLines(p.output(), 15)))
}

func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
