// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// dirLock is a lock on a directory among operators and among the goroutines of one. The directory itself is locked, so
// that no lock file outlives an instance. It is a flock, which belongs to the open file and not, like the lock of an
// instance's process, to the process.
type dirLock struct{ dir *os.File } // or, for tryLockRecord, a file

// errBusy tells that somebody else holds the lock.
var errBusy = errors.New("directory is locked by another create or delete")

// tryLockDir takes the lock of dir, with unix.LOCK_EX or unix.LOCK_SH, or returns errBusy. It returns fs.ErrNotExist when
// there is no such directory, also when it is removed meanwhile.
func tryLockDir(dir string, how int) (*dirLock, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0) // #nosec G304 -- the path is made from checked names
	if err != nil {
		return nil, err
	}
	l := &dirLock{dir: f}
	if err := flock(f, how|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errBusy
		}
		return nil, errors.Join(err, f.Close())
	}
	// The name may lead to another directory by now, or to none: the lock of a removed one protects nothing.
	mine, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, l.unlock())
	}
	named, err := os.Lstat(dir)
	if err != nil {
		return nil, errors.Join(err, l.unlock())
	}
	if !os.SameFile(mine, named) {
		return nil, errors.Join(errBusy, l.unlock())
	}
	return l, nil
}

// tryLockRecord claims the end of a process that is marked to end, from when on its record isn't written any more, or
// returns errBusy. Every reader goes on with an interrupted delete, and there may be several operators, but a second
// SIGTERM would cut short the grace of the first.
func tryLockRecord(pl place) (*dirLock, error) {
	f, err := os.OpenFile(pl.record(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errBusy
		}
		return nil, errors.Join(err, f.Close())
	}
	return &dirLock{dir: f}, nil
}

// lockDir waits for the lock until ctx ends.
func lockDir(ctx context.Context, c clock.Clock, dir string) (*dirLock, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, err := tryLockDir(dir, unix.LOCK_EX)
		if !errors.Is(err, errBusy) {
			return l, err
		}
		if err := pause(ctx, c); err != nil {
			return nil, err
		}
	}
}

// unlock gives the lock up at once: closing alone would leave it to a process that is being forked just now and has a
// copy of the descriptor until it executes.
func (l *dirLock) unlock() error {
	return errors.Join(flock(l.dir, unix.LOCK_UN), l.dir.Close())
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how) // #nosec G115 -- a descriptor is a small number
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// pause waits for one poll interval, or until ctx ends.
func pause(ctx context.Context, c clock.Clock) error {
	t := c.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C():
		return nil
	}
}
