// SPDX-License-Identifier: Apache-2.0

// Package processlock says which live process owns a file.
//
// A PID in a file says nothing once the process is gone, since the number goes
// to somebody else. A lock held by the kernel on behalf of a process ends with
// that process however it ends, so a held lock is proof of life, and the kernel
// names the holder.
//
// The locks are POSIX record locks (fcntl F_SETLK), the only kind that tells
// the holder's PID on both Linux and macOS. They belong to the process, not to
// the open file, which gives callers one rule: a process that holds the lock of
// a path mustn't open that path by any other means, Holder and a second Acquire
// included. Closing such a second descriptor drops the lock. Locks don't pass
// to children.
package processlock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// fileMode keeps other users from taking the lock in our place.
const fileMode = 0o600

// Lock is a lock held by this process. It is safe to keep for the life of the
// process and never release: the kernel does that.
type Lock struct {
	file *os.File
	path string
}

// HeldError is returned by Acquire when another process holds the lock.
type HeldError struct {
	// Path is the lock file.
	Path string
	// PID is the holder, or 0 when it has just gone or is in a PID namespace
	// that this process can't see.
	PID int
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("lock %s is held by process %d", e.Path, e.PID)
}

// Acquire takes the exclusive lock of path without waiting and creates the file
// if it isn't there (its content is never read or changed). It returns a
// *HeldError when another process holds the lock. The file may be removed by
// anybody at any time: a lock on a file that no longer has the name isn't
// returned.
func Acquire(path string) (*Lock, error) {
	for {
		lock, err := tryAcquire(path)
		if err != nil {
			return nil, fmt.Errorf("acquire process lock: %w", err)
		}
		// The file may have been removed between open and lock, while another
		// process locks its successor.
		named, err := lock.StillNamed()
		if err == nil && named {
			return lock, nil
		}
		if err = errors.Join(err, lock.Release()); err != nil {
			return nil, fmt.Errorf("acquire process lock: %w", err)
		}
	}
}

// Release gives the lock up. The file stays, since removing it would let two
// processes lock two files of one name. Releasing twice is an error.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release process lock: %w", err)
	}
	return nil
}

// Holder tells which other process holds the lock of path. It never takes the
// lock, so asking can't make a process that is starting fail. A file that
// doesn't exist is held by nobody. pid is 0 with held true when the holder is
// in a PID namespace that this process can't see. It must not be called by the
// process that holds the lock (see the package's rule).
func Holder(path string) (pid int, held bool, err error) {
	file, err := open(path, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read holder of process lock: %w", err)
	}
	pid, held, err = query(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, false, fmt.Errorf("read holder of process lock %s: %w", path, err)
	}
	return pid, held, nil
}

func tryAcquire(path string) (*Lock, error) {
	file, err := open(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	err = fcntl(file, unix.F_SETLK, wholeFile())
	if err == nil {
		return &Lock{file: file, path: path}, nil
	}
	// POSIX allows either errno for a lock that is held.
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		pid, _, queryErr := query(file)
		err = errors.Join(&HeldError{Path: path, PID: pid}, queryErr)
	}
	return nil, errors.Join(err, file.Close())
}

// StillNamed tells whether the path given to Acquire still leads to the locked
// file. Where it doesn't, since the file or a folder above it was removed, moved
// or replaced, nobody can tell any more that this process lives, and another one
// may hold the lock of the path. An error says nothing either way.
func (l *Lock) StillNamed() (bool, error) {
	mine, err := l.file.Stat()
	if err != nil {
		return false, err
	}
	current, err := os.Lstat(l.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, current), nil
}

func open(path string, flags int) (*os.File, error) {
	// A FIFO or a link planted under the name must neither block nor lead away.
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, fileMode) // #nosec G304 -- the caller owns the path
	if err != nil {
		return nil, err
	}
	return file, nil
}

func query(file *os.File) (pid int, held bool, err error) {
	lock := wholeFile()
	if err := fcntl(file, unix.F_GETLK, lock); err != nil {
		return 0, false, err
	}
	if lock.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	return int(lock.Pid), true, nil
}

func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
}

func fcntl(file *os.File, cmd int, lock *unix.Flock_t) error {
	for {
		err := unix.FcntlFlock(file.Fd(), cmd, lock)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
