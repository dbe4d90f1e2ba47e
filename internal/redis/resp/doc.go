// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package resp implements parts of RESP, the protocol of Redis.
//
// [Guard] protects the client library from the server. Users choose the servers, and the client library is not made for
// a hostile one. Guard checks every reply against limits and ends the connection when a reply exceeds one, before the
// client library sees it. It also reports what the client library does not: which error the server sent before it
// closed the connection.
//
// [Decode] is for raw replies, and [Reader] for connections without the client library. They have the same limits,
// because one decoder does all of this; for Guard it keeps nothing.
//
// The package depends on no client library, and does not interpret the replies.
package resp
