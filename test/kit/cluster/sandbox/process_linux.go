// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "syscall"

// DieWithParent makes the kernel kill the child when the thread that started it is gone. The child gets a process group
// of its own, so that Ctrl-C reaches the parent alone, which then stops the children in order.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
