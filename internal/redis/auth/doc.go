// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package auth says which Redis server is meant and what it takes to be let in there. An
// [Endpoint] has the names: an address, a user, keys of Secrets. A [Resolver] finds the [Credentials] that they stand
// for now: a password, and how to know the server and to be known by it.
//
// Values of Secrets are bounded in size before anything is done with them, and no error tells
// anything of them.
package auth
