// SPDX-License-Identifier: Apache-2.0

package manager_test

import "syscall"

// managerAttributes: a process group of its own, as a shell gives it, and an end with the tests' own.
func managerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
