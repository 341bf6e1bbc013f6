// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import "syscall"

// Only Linux ends a child with its parent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
