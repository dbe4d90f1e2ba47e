// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "syscall"

// dieWithParent has no parent-death signal to use here: children of a killed
// parent live on.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
