// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync/atomic"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/budget"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

// refusalMemory is how long no transaction is sent to a server that has rejected one.
const refusalMemory = time.Minute

// memory is what is remembered about a server.
type memory struct {
	// transactions are refused, or pending entries are not listed.
	transactions, pending refusal
	// counting is the time that may be spent on counting the entries of streams, for all readers together: it is expensive
	// for the server and delays its other clients.
	counting interface {
		Left() time.Duration
		Charge(took time.Duration)
	}
}

func newMemory() any { return &memory{counting: budget.New()} }

func memoryOf(conn *connection.Conn) *memory { return conn.Memory(newMemory).(*memory) }

// refusal remembers that a server has refused something. The zero value remembers nothing.
type refusal struct{ until atomic.Pointer[time.Time] }

// holds reports whether the refusal was within the last minute.
func (r *refusal) holds() bool {
	until := r.until.Load()
	return until != nil && time.Now().Before(*until)
}

// note remembers a refusal.
func (r *refusal) note() { r.until.Store(new(time.Now().Add(refusalMemory))) }
