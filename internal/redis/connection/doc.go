// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package connection owns the connections to Redis: it shares them among all who name the same [auth.Endpoint], keeps the
// credentials up to date, and bounds every call in time. Its errors are those of package failure.
//
// # What it guards against
//
// An operator reads many queues on many servers with few workers, so one bad server
// must not cost the others anything:
//
//   - A call has a deadline of one second and keeps to it.
//   - While a call has been outstanding for 100 ms, further calls to that server fail at once with [failure.ErrBusy].
//   - Once a dial or a call failed below the Redis protocol, or the server refused the credentials, the server is
//     down: calls fail at once with the remembered cause. One prober per server, backing off, is then the only one to
//     dial it; the dialer itself enforces that. Whoever needs the server waits in [Conn.WaitUp], and whoever missed
//     something while it was down in [Conn.WaitRestored].
//   - A host name is resolved once, and all connections lead to the address that it was found at, until the server is
//     down or the name points elsewhere. That is looked up every 15 seconds.
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
// The [auth.Credentials] for an endpoint are loaded before the first dial, kept in memory, and looked at again every 30
// seconds and before each probe. When they have changed, a connection is made with the new ones first. Only then later
// calls go to new clients, the clients before are closed a second later, and subscriptions move: see [Conn.Successor].
// Credentials that the server refuses replace nothing, nor does an answer of the API server that leaves open what a
// Secret holds. A Secret that is gone or invalid ends the use of the endpoint.
//
// Passwords are cut out of all that is told of what a server said, by package redact.
//
// # How it is built
//
// The [Pool] has one server for each endpoint in use. A server is made of parts, each with a lock and a file of its own:
// health (up or down, and the clients in use), traffic (how calls and connections fare), credentials (loaded, rejected,
// refused), clients, and pubSubs. Locks of parts do not nest, and none is held during I/O.
package connection
