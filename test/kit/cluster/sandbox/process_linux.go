// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "syscall"

// dieWithParent makes the kernel kill the child when its parent is gone. The
// child gets a process group of its own, so that Ctrl-C reaches the parent
// alone, which then stops the children in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
