// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "syscall"

// DieWithParent has no parent-death signal to use here: children of a killed parent live on.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
