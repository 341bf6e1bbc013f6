// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import "syscall"

// Attributes give a process a group of its own. Only Linux ends a child with its parent.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
