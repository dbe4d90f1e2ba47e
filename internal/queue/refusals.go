// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// refusalMemory is how long no transaction is sent to an endpoint that has rejected one.
const refusalMemory = time.Minute

// refusals remembers which endpoints reject transactions. The zero value is ready.
type refusals struct {
	mu    sync.Mutex
	until map[auth.Endpoint]time.Time
}

// has reports whether an endpoint has rejected a transaction within the last minute.
func (r *refusals) has(e auth.Endpoint) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[e])
}

// add remembers an endpoint, and removes those that were added long ago.
func (r *refusals) add(e auth.Endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.until, func(_ auth.Endpoint, until time.Time) bool { return !now.Before(until) })
	if r.until == nil {
		r.until = map[auth.Endpoint]time.Time{}
	}
	r.until[e] = now.Add(refusalMemory)
}
