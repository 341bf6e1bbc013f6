// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalHolder signals the process that holds the lock; nobody holding it is no error. The lock is asked again once a
// pidfd is open: if the process holds it now, the pidfd can't be that of another one with the same number.
func signalHolder(lock string, sig syscall.Signal) error {
	pid, held, err := lockHolder(lock)
	if err != nil || !held {
		return err
	}
	if pid <= 0 {
		return fmt.Errorf("holder of %s is in another PID namespace", lock)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	err = signalIfHolder(fd, pid, lock, sig)
	return errors.Join(err, unix.Close(fd))
}

func signalIfHolder(fd, pid int, lock string, sig syscall.Signal) error {
	again, held, err := lockHolder(lock)
	if err != nil || !held || again != pid {
		return err
	}
	err = unix.PidfdSendSignal(fd, sig, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}
