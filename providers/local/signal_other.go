// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package local

import (
	"errors"
	"fmt"
	"syscall"
)

// signalHolder signals the process that holds the lock; nobody holding it is no error. Without pidfds a process that
// ends right after it was asked for could be mistaken for another one that gets its number within microseconds.
func signalHolder(lock string, sig syscall.Signal) error {
	pid, held, err := lockHolder(lock)
	if err != nil || !held {
		return err
	}
	if pid <= 0 {
		return fmt.Errorf("holder of %s can't be seen", lock)
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}
