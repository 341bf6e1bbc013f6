// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/proxy-operator/proxy-operator/providers"
)

// fail gives an error of this machine the class that tells the caller what to do. It is for errors after which nothing
// is left changed; ambiguous is for the others.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	var e *providers.Error
	if errors.As(err, &e) {
		e.Op = op
		return e
	}
	return &providers.Error{Class: class(err), Op: op, Code: errnoCode(err), Err: err}
}

func class(err error) providers.ErrorClass {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return providers.QuotaExceeded
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return providers.Denied
	default:
		return providers.Transient
	}
}

// ambiguous marks an error after which something was changed. nil stays nil.
func ambiguous(err error) error {
	if err == nil {
		return nil
	}
	return &providers.Error{Class: providers.Ambiguous, Op: opDelete, Code: errnoCode(err), Err: err}
}

// errnoCode is the system's name of the error ("ENOSPC"), which is the same from call to call.
func errnoCode(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return ""
}
