// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

// lookEvery paces the looks at the process's own files.
const lookEvery = 2 * time.Second

// ErrLockLost is returned by Run when Options.LockFile doesn't lead to the locked
// file any more.
var ErrLockLost = errors.New("lock file was removed or replaced, so nobody could find this process to stop it")

// files are those by which others know this process.
type files struct {
	lock      *processlock.Lock // nil where there is none
	lockPath  string
	readyPath string // empty where there is none
	ready     []byte
	log       *slog.Logger
	clock     clock.WithTicker
}

// newFiles writes the ready file.
func newFiles(o Options, lock *processlock.Lock, address netip.AddrPort, s *Server) (*files, error) {
	content, err := json.Marshal(Ready{Address: address.Addr().String(), Port: int(address.Port()), PID: os.Getpid()})
	if err != nil {
		return nil, fmt.Errorf("encode ready file: %w", err)
	}
	f := &files{lock: lock, lockPath: o.LockFile, readyPath: o.ReadyFile, ready: append(content, '\n'), log: s.log, clock: s.clock}
	return f, f.writeReady()
}

// keepDuring runs serve and looks after the files meanwhile. serve's context ends
// when the lock is lost. At the end the ready file is removed.
func (f *files) keepDuring(ctx context.Context, serve func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := f.watch(ctx); err != nil {
			f.log.Error("ending", "error", err)
			stop(err)
		}
	}()
	err := serve(ctx)
	stop(nil)
	<-watched
	if cause := context.Cause(ctx); errors.Is(cause, ErrLockLost) {
		err = errors.Join(err, cause)
	}
	return errors.Join(err, f.removeReady())
}

// watch returns an error when the lock is lost, and nil when ctx ends.
func (f *files) watch(ctx context.Context) error {
	ticker := f.clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		named, err := f.named()
		if err != nil {
			f.log.Error("look at lock file", "error", err)
			continue
		}
		if !named {
			return fmt.Errorf("%s: %w", f.lockPath, ErrLockLost)
		}
		if err := f.restoreReady(); err != nil {
			f.log.Error("restore ready file", "error", err)
		}
	}
}

// named tells whether the files' paths are still this process's own.
func (f *files) named() (bool, error) {
	if f.lock == nil {
		return true, nil
	}
	return f.lock.StillNamed()
}

// restoreReady writes the ready file again if it was removed or changed.
func (f *files) restoreReady() error {
	if f.readyPath == "" {
		return nil
	}
	info, err := os.Lstat(f.readyPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && info.Mode().IsRegular() && info.Size() == int64(len(f.ready)) {
		content, err := os.ReadFile(f.readyPath)
		if err != nil || bytes.Equal(content, f.ready) {
			return err
		}
	}
	f.log.Warn("ready file was removed or changed, writing it again", "path", f.readyPath)
	return f.writeReady()
}

// writeReady writes beside and renames, so that a reader never sees half of it.
func (f *files) writeReady() error {
	if f.readyPath == "" {
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(f.readyPath), filepath.Base(f.readyPath)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	_, err = file.Write(f.ready)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), f.readyPath)
	}
	if err != nil {
		return fmt.Errorf("write ready file: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}

// removeReady leaves the file alone where the lock is lost: it would be that of
// another process.
func (f *files) removeReady() error {
	if f.readyPath == "" {
		return nil
	}
	if named, err := f.named(); err != nil || !named {
		return err
	}
	if err := os.Remove(f.readyPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove ready file: %w", err)
	}
	return nil
}
