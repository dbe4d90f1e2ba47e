// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package resp

// unread reports nothing: where sockets can't be looked at, the client library does not ask.
func unread(uintptr) bool { return false }
