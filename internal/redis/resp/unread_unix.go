// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package resp

import "syscall"

// unread reports whether a socket has something that was not read.
func unread(fd uintptr) bool {
	var next [1]byte
	n, _, _ := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n > 0
}
