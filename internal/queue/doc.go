// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue reads how many messages wait in a Redis queue.
package queue

import "miracle.dev/scaledjob-operator/internal/redisconn"

// Source names a queue: a list, by its key, in database 0 of a server. It is comparable.
type Source struct {
	// Endpoint is the server.
	Endpoint redisconn.Endpoint
	// Key is the name of the list, as raw bytes.
	Key string
}
