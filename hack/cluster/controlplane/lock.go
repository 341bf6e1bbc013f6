// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const lockPoll = 200 * time.Millisecond // flock can't be waited for together with a context

// lock takes the lock of path, creating the file and its folder, and returns
// what releases it. While another process holds it, waiting is called once and
// lock tries on until ctx ends. The kernel releases the lock of a process that
// dies, so there are no stale locks.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for said := false; ; said = true {
		unlock, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return unlock, err
		}
		if !said {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", path, ctx.Err())
		case <-ticker.C:
		}
	}
}

// errLocked: another process holds the lock.
var errLocked = errors.New("locked by another process")

// tryLock is lock without the waiting: errLocked when another holds it.
func tryLock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("create lock's folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Closing releases the lock. The file stays: were it removed, a waiter
	// could lock the removed one while a third locks its successor.
	return func() { _ = file.Close() }, nil
}
