// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package connection owns the connections to Redis: it shares them among all who name the same
// [auth.Endpoint], keeps what a server has the operator sign in with up to date, and bounds
// every call in time. Its errors are those of package failure.
//
// # What it guards against
//
// An operator reads many queues on many servers with few workers, so one bad server
// must not cost the others anything:
//
//   - A call has a deadline of one second and keeps to it.
//   - While a call has been outstanding for 100 ms, further calls to that endpoint
//     fail at once with [failure.ErrBusy].
//   - Once a dial or a call failed below the Redis protocol, or the server refused the
//     credentials, the endpoint is down: calls fail at once with the remembered cause.
//     One prober per endpoint, backing off, is then the only one to dial it; the dialer
//     itself enforces that. Whoever needs the endpoint waits in [Conn.WaitUp], and whoever
//     missed something while it was down in [Conn.WaitRestored].
//   - A host name is resolved once, and all connections lead to the address that it was
//     found at, until the endpoint is down or the name points elsewhere. That is looked up
//     every 15 seconds.
//   - Servers are chosen by users and are not trusted: replies are bounded in size and
//     depth before the client library sees them.
//   - One tenant's slow servers hold up few of all calls: see [Pool.ConnFor]. It uses so many
//     servers as [Options] says, and what nobody uses any more is closed: see [Pool.Claim].
//
// A Redis error reply (LOADING, NOPERM, WRONGTYPE, …) comes from a server that works,
// so it fails the call and nothing else.
//
// # What it knows of secrets
//
// What an endpoint takes, its [auth.Credentials], is loaded before the first dial, kept in memory,
// and looked at again every 30 seconds and before each probe. When it has changed, a connection is
// made with the new one first. Only then later calls go to new clients, the clients before are
// closed a second later, and subscriptions move: see [Conn.Successor]. What the server refuses
// replaces nothing, nor does an answer of the API server that leaves open what a Secret holds. A
// Secret that is gone or of no use ends the use of the endpoint.
//
// Passwords are cut out of all that is told of what a server said, by package redact.
package connection
