// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package node

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
)

var errLinux = errors.New("a node needs Linux")

// Node is a running node; here there is none.
type Node struct{}

// IsStage is false: there are no stages here.
func IsStage([]string) bool { return false }

// Stage is never called.
func Stage([]string) error { return errLinux }

// Up always fails.
func Up(context.Context, Options) (*Node, error) { return nil, errLinux }

// Running always fails.
func Running() (*Node, error) { return nil, errLinux }

// Down always fails.
func Down(context.Context, io.Writer) error { return errLinux }

// Signal is never called.
func Signal(*exec.Cmd, syscall.Signal) error { return errLinux }

// Command is never called.
func (*Node) Command(context.Context, ...string) *exec.Cmd { return nil }

// Kubeconfig is never called.
func (*Node) Kubeconfig() string { return "" }

// Logs is never called.
func (*Node) Logs() string { return "" }

// Done is never called.
func (*Node) Done() <-chan struct{} { return nil }

// Stop is never called.
func (*Node) Stop() error { return errLinux }
