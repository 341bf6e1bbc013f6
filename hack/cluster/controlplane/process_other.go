// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package controlplane

import "syscall"

// No other system has Linux's Pdeathsig: if this process is killed, so that it
// can't stop its children, they stay.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
