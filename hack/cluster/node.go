// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/cluster/node"
)

// commandGrace is for what a command does after an interrupt. All that it started inside ends with the node in any case.
const commandGrace = 30 * time.Second

// upNode runs a node until the context ends, or as long as a command takes that runs inside.
func upNode(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	options := node.Options{Log: stderr}
	flags := flag.NewFlagSet("up --node", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&options.AuditPolicy, "audit-policy", "", "")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	n, err := node.Up(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		_, _ = fmt.Fprintln(stderr, "removing the node ...")
		err = errors.Join(err, n.Stop())
	}()
	if command := flags.Args(); len(command) > 0 {
		return runInside(ctx, n, command, stdout, stderr)
	}
	_, _ = fmt.Fprintf(stdout, `Node ready. Stop it with Ctrl-C, or with: go run ./hack/cluster down
Nobody outside can reach it. To use it:

  go run ./hack/cluster in kubectl get pods --all-namespaces
  go run ./hack/cluster in bash

What its parts write is in %s.
`, n.Logs())
	select {
	case <-n.Done():
		return fmt.Errorf("the node has ended; see %s", n.Logs())
	case <-ctx.Done():
		return nil
	}
}

// runInside runs the command. When the context ends, the command and its children get an interrupt.
func runInside(ctx context.Context, n *node.Node, command []string, stdout, stderr io.Writer) error {
	cmd := n.Command(ctx, command...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = commandGrace
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err() // says more than "signal: interrupt"
	}
	return err
}

// inside runs a command on the node that runs here, with this terminal.
func inside(ctx context.Context, command []string, stdout, stderr io.Writer) error {
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return errUsage
	}
	n, err := node.Running()
	if err != nil {
		return err
	}
	// It ends when the command does: what a signal means to that, it decides itself.
	cmd := n.Command(context.WithoutCancel(ctx), command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run inside: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return passOn(ctx, cmd, signals, ended)
}

// passOn passes signals on to the command inside until it has ended. Ctrl-C reaches it by itself, in the same group.
func passOn(ctx context.Context, cmd *exec.Cmd, signals <-chan os.Signal, ended <-chan error) error {
	for interrupted := ctx.Done(); ; {
		s := syscall.SIGTERM
		select {
		case err := <-ended:
			return err
		case received := <-signals:
			if received == syscall.SIGHUP {
				s = syscall.SIGHUP
			}
		case <-interrupted:
			interrupted = nil
			if !errors.Is(context.Cause(ctx), errParentGone) {
				continue // of a signal, which reached the command or comes by the channel
			}
		}
		if err := node.Signal(cmd, s); err != nil {
			return err
		}
	}
}
