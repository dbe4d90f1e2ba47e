// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package connection manages the connections to Redis. All users of an [auth.Endpoint] share its connections. The
// package keeps the credentials up to date and limits the time of every call. Its errors are those of package failure.
//
// # Isolation between servers
//
// A few workers of the operator read many queues on many servers. So that one bad server does not delay the others:
//
//   - A call has a timeout of one second. A connection to a server that is far away may take longer: then it is for the
//     next call.
//   - While a call to a server has had no answer for 100 ms, further calls to this server fail at once with
//     [failure.ErrBusy].
//   - A server is marked down when a dial or a call fails below the Redis protocol, or when the server rejects the
//     credentials. Then calls fail at once with the remembered cause, and only the keeper of the server dials it,
//     with back-off; the dialer enforces that. [Conn.WaitUp] waits for the server.
//   - A host name is resolved once. All connections use the address that was found, until the server is down or the
//     name resolves to other addresses, which its keeper checks every 15 seconds.
//   - Servers are chosen by users and are not trusted: the size and the depth of replies are checked before the client
//     library parses them.
//   - The connections to a server are few, for all its databases together: see [Options]. Those for reads that are not
//     needed are closed after seconds, or at once if the server says that it has too many clients.
//   - The late calls of one tenant are limited: see [Pool.ConnFor]. So is the number of servers that it uses: see
//     [Options] and [Pool.Claim]. Servers that are not claimed any longer are closed.
//
// A Redis error reply (LOADING, NOPERM, WRONGTYPE, …) comes from a server that works, so only the call fails.
//
// # Credentials
//
// The [auth.Credentials] of an endpoint are loaded before the first dial and kept in memory. The Secrets are read again
// every 30 seconds and before each probe. When a value has changed, the package first makes a connection with the new
// values. Only if that works, calls use new clients, the old clients are closed a second later, and subscriptions move
// to new connections: see [Conn.UseWire]. If the server rejects the new values, or the API server does not answer,
// the credentials in use stay in use. If a Secret was deleted or is invalid, the endpoint is not used any longer.
//
// Package redact removes the passwords of a server from what it says, where its errors are classified.
//
// # Deployments
//
// A deployment of several servers has no connections of its own. Its servers are endpoints with a role, which the reply
// to HELLO is compared with at each new connection. [Client.Read] asks a master that sentinels have named at each read.
// Claims are for the deployment, and its servers live as long as it has one. The masters of a Cluster that have keys of
// an owner count as servers of its tenant.
//
// # Structure
//
// The [Pool] has a server for each endpoint in use. All that can change about a server has one lock, which is not held
// during I/O; its connections have another one. Its keeper is the goroutine that does what is due for it.
//
//	pool.go         the servers in use
//	quota.go        which owners use them, and how many each tenant may use
//	server.go       the state of a server, and how it changes
//	keeper.go       probes, look-ups and reads of Secrets, when they are due
//	address.go      the address of a host name that is in use
//	credentials.go  what Secrets have, and what the server accepts of it
//	rotation.go     from one password to the next
//	dial.go         how a connection is made, and how many at once
//	handshake.go    HELLO, AUTH and SELECT, of which the client library sees nothing
//	permits.go      how many connections there are, and what for, with permit.go
//	conn.go         calls, with client.go, calls.go and failure.go
//	identity.go     whether the server is what it must be
//	wire.go         connections for messages
package connection
