// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package auth describes how to connect to a Redis server. An [Endpoint] has the address, the user and the names of
// Secrets. A [Resolver] reads these Secrets and returns the [Credentials]: the password and the TLS configuration.
//
// The size of each value of a Secret is checked before the value is used, and no error contains any part of a value.
package auth
