// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package resp is about RESP, the protocol of Redis. It guards a Redis client against the server, and decodes replies.
//
// [Guard] follows the framing of what the server sends, and ends a connection on which a reply exceeds the bounds before
// the client sees it: users choose the servers, and no client is written for a hostile one. On the way it notes what a
// client does not tell: whether the server has said anything, whether it serves, and the words with which it closed the
// connection. [Decode] is for replies that a client hands over as they came.
//
// The package knows no client, and nothing of what the replies mean.
package resp
