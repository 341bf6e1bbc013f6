// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package manager_test

import "syscall"

// managerAttributes: a process group of its own, as a shell gives it.
func managerAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
