// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact cuts passwords out of what is told about servers. A server repeats what it was
// sent, in the words of its errors, and what it says ends up in logs.
package redact
