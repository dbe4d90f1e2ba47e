// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"sync"
	"time"
)

// Allowance bounds how many events are taken: Rate per second, and Burst at once.
type Allowance struct{ Rate, Burst float64 }

// Bucket counts the events of one taker against an [Allowance]. The zero value has taken nothing. It is not safe for
// concurrent use.
type Bucket struct {
	spent float64
	at    time.Time
}

// Spend takes n events and returns how many more may be taken now. A negative number means that these were too many.
// The events beyond the allowance count as well, up to another burst, so that a flood has to end before there is
// anything left again.
func (b *Bucket) Spend(n int, of Allowance, now time.Time) (left float64) {
	regained := now.Sub(b.at).Seconds() * of.Rate
	b.spent = min(max(b.spent-regained, 0)+float64(n), of.Burst+of.Burst)
	b.at = now
	return of.Burst - b.spent
}

// Budgets has one [Bucket] for each namespace. It is safe for concurrent use.
type Budgets struct {
	of Allowance

	mu      sync.Mutex
	buckets map[string]*Bucket
	// sweepAt is the number of buckets at which the full ones are removed: they are like new ones.
	sweepAt int
}

// NewBudgets returns Budgets that give each namespace the same allowance.
func NewBudgets(of Allowance) *Budgets {
	return &Budgets{of: of, buckets: map[string]*Bucket{}}
}

// Spend takes n events of a namespace and returns how many more it may take now, as [Bucket.Spend] does.
func (b *Budgets) Spend(namespace string, n int, now time.Time) (left float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bucket, ok := b.buckets[namespace]
	if !ok {
		b.sweep(now)
		bucket = &Bucket{}
		b.buckets[namespace] = bucket
	}
	return bucket.Spend(n, b.of, now)
}

// Exhausted charges n events that nobody asked for to each of these namespaces. It reports whether each of them has
// taken a whole burst too many.
func (b *Budgets) Exhausted(namespaces []string, n int, now time.Time) bool {
	exhausted := len(namespaces) > 0
	for _, each := range namespaces {
		exhausted = b.Spend(each, n, now) <= -b.of.Burst && exhausted
	}
	return exhausted
}

// sweep removes the full buckets if there are many.
func (b *Budgets) sweep(now time.Time) {
	if len(b.buckets) < b.sweepAt {
		return
	}
	for namespace, bucket := range b.buckets {
		if bucket.Spend(0, b.of, now) >= b.of.Burst {
			delete(b.buckets, namespace)
		}
	}
	b.sweepAt = 2*len(b.buckets) + 1
}
