// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// everRan reports whether a process was started in the place: the first thing a process does is to make its lock file.
func everRan(pl place) (bool, error) {
	_, err := os.Lstat(pl.lock())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// start starts the instance's process and waits until it holds its lock. On an error no process is left.
func (p *Provider) start(pl place, r record) error {
	cmd, err := p.command(pl, r)
	if err != nil {
		return err
	}
	if err = keepDescriptors(); err == nil {
		err = cmd.Start()
	}
	if out, ok := cmd.Stdout.(io.Closer); ok {
		err = errors.Join(err, out.Close()) // the child has its own copy
	}
	if err != nil && cmd.Process == nil {
		return fmt.Errorf("start process: %w", err)
	}
	p.reached("process started")
	exited := make(chan struct{})
	go func() { // lives as long as the process, to reap it
		err := cmd.Wait()
		p.opts.Log.V(1).Info("Process ended", "instance", pl.name, "pid", cmd.Process.Pid, "status", cmd.ProcessState.String(), "error", err)
		close(exited)
	}()
	if err := p.awaitLock(pl, cmd, exited); err != nil {
		return err
	}
	p.reached("lock held")
	return nil
}

// command describes the process: a session of its own, so that Ctrl-C in the operator's terminal doesn't reach it, no
// environment, no open files but its output.
func (p *Provider) command(pl place, r record) (*exec.Cmd, error) {
	args := []string{
		"forward-proxy",
		"--listen", net.JoinHostPort(r.Address, strconv.Itoa(int(r.Port))),
		"--ready-file", pl.ready(),
		"--lock-file", pl.lock(),
	}
	if r.Auth {
		args = append(args, "--auth-dir", pl.auth())
	}
	out, err := os.OpenFile(pl.output(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// Without a context: the process outlives the call and the operator.
	cmd := exec.Command(p.opts.Binary, args...) //nolint:gosec,noctx // our own binary; see above
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// keepDescriptors has this process keep what it inherited itself. Go closes its own files in a child, but a pipe from a
// shell or a CI job would stay open as long as the instance lives, and its reader would never see the end.
func keepDescriptors() error {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("list open files: %w", err)
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// awaitLock returns nil once a process holds the place's lock. That may be another one than ours: one that a crashed
// operator had just started. Ours then ends by itself.
func (p *Provider) awaitLock(pl place, cmd *exec.Cmd, exited <-chan struct{}) error {
	limit := p.opts.Clock.NewTimer(startLimit)
	defer limit.Stop()
	for {
		pid, held, err := lockHolder(pl.lock())
		if held && (pid == cmd.Process.Pid || pid == 0) {
			return nil
		}
		tick := p.opts.Clock.NewTimer(pollEvery)
		select {
		case <-exited:
			return endedEarly(pl, cmd, err)
		case <-limit.C():
			err = errors.Join(err, cmd.Process.Kill()) // it is our child and not reaped yet: no other can have its PID
			<-exited
			return fmt.Errorf("process did not take its lock within %s: %w", startLimit, errors.Join(err, errEnded))
		case <-tick.C():
			tick.Stop()
		}
	}
}

var errEnded = errors.New("process ended")

func endedEarly(pl place, cmd *exec.Cmd, err error) error {
	if _, held, holderErr := lockHolder(pl.lock()); held {
		return nil
	} else if err = errors.Join(err, holderErr); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return fmt.Errorf("%w at once with %s: %s", errEnded, cmd.ProcessState, lastWords(pl))
}

// lastWords returns the end of the process's output, for log and Event.
func lastWords(pl place) string {
	f, err := os.Open(pl.output())
	if err != nil {
		return "no output"
	}
	defer func() { _ = f.Close() }()
	const most = 300
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return "no output"
		}
	}
	raw, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil || len(raw) == 0 {
		return "no output"
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(raw), "?")), " ")
}
