// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// Only Linux ends a child with its parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
