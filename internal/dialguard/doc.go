// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package dialguard decides which addresses may be connected to, where other people name the
// servers.
package dialguard
