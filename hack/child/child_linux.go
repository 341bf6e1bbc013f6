// SPDX-License-Identifier: Apache-2.0

package child

import "syscall"

// Attributes give a process a group of its own, and on Linux have it killed when the thread that starts it ends: the caller
// locks that thread until the process has ended (golang/go#27505).
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
