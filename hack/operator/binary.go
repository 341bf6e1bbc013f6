// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
)

const module = "module github.com/proxy-operator/proxy-operator"

// Checkout finds the root of this repository, in the working folder or above.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), module+"\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this is no checkout of proxy-operator: change into one; its CRD and its samples are used")
		}
		dir = filepath.Dir(dir)
	}
}

// findBinary returns the absolute path of the operator's binary: of the given one, or, where none is given, of the one that
// it builds in the checkout.
func findBinary(ctx context.Context, root, given string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", fmt.Errorf("find the operator's binary: %w", err)
		}
		return path, nil
	}
	path := filepath.Join(root, "bin", "proxy-operator")
	return path, Build(ctx, root, path)
}

// Build builds the operator of the checkout root as path, which must be absolute, with more flags for the go command.
func Build(ctx context.Context, root, path string, flags ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", path}, flags, []string{"./cmd"})...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &output, &output
	// In a group of its own the go command is ended together with its compilers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	switch err := cmd.Run(); {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("build the operator: there is no go in PATH; install Go, or name a binary with -binary")
	case ctx.Err() != nil:
		return fmt.Errorf("build the operator: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("build the operator: %w\n%s", err, child.Tail(output.String(), 20))
	}
	return nil
}
