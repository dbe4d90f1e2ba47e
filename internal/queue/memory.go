// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

const (
	// refusalMemory is how long no transaction is sent to a server that has rejected one.
	refusalMemory = time.Minute
	// countingShare is the part of the time that may be spent on counting the entries of streams, for each server and all
	// its readers together. countingBurst is how much unused time can be saved up. Counting many entries is expensive for
	// the server and delays its other clients.
	countingShare = 0.1
	countingBurst = 500 * time.Millisecond
)

// memory is what is remembered about a server.
type memory struct {
	// transactions are refused, or pending entries are not listed.
	transactions, pending refusal
	// counting is a limiter of milliseconds.
	counting *rate.Limiter
}

func newMemory() any {
	perSecond := countingShare * float64(time.Second.Milliseconds())
	return &memory{counting: rate.NewLimiter(rate.Limit(perSecond), int(countingBurst.Milliseconds()))}
}

func memoryOf(conn *connection.Conn) *memory { return conn.Memory(newMemory).(*memory) }

// left returns how long entries may be counted now.
func (m *memory) left() time.Duration {
	return time.Duration(max(0, m.counting.Tokens()) * float64(time.Millisecond))
}

// spend records how long entries were counted.
func (m *memory) spend(took time.Duration) {
	m.counting.ReserveN(time.Now(), int(min(took, countingBurst).Milliseconds()))
}

// refusal remembers that a server has refused something. The zero value remembers nothing.
type refusal struct{ until atomic.Pointer[time.Time] }

// holds reports whether the refusal was within the last minute.
func (r *refusal) holds() bool {
	until := r.until.Load()
	return until != nil && time.Now().Before(*until)
}

// note remembers a refusal.
func (r *refusal) note() { r.until.Store(new(time.Now().Add(refusalMemory))) }
