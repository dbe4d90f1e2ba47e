// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact removes passwords from what a Redis server says. A server, or one that only claims to be one, may
// repeat the password in an error reply, and error replies are logged.
package redact
