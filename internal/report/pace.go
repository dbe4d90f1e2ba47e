// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/moment"
)

const (
	// numbersDelay is how long after a change of only numbers the status is written, and numbersJitter is the fraction by
	// which that is randomly shorter or longer, so that writes spread. longestDelay is how long it takes at most because
	// others of the namespace are written first.
	numbersDelay  = time.Second
	numbersJitter = 0.25
	longestDelay  = 10 * time.Second
	// numbersAtOnce is how many writes of numbers the rate allows at the same time, if they take as long as the last ones.
	numbersAtOnce = 2
	// slowWrite is the longest time that counts for that: what takes longer waits for an admission webhook.
	slowWrite = 100 * time.Millisecond
	// meanOf is the number of last writes in the mean of their durations.
	meanOf = 8
)

// pace spreads the writes of statuses in which only numbers have changed. Such a write costs the API server as much as
// several creates of Jobs. So it is delayed, and those of a namespace follow each other as fast as few at a time allow.
// The namespaces share that rate. The zero value is ready for use. pace is safe for concurrent use.
type pace struct {
	mu  sync.Mutex
	all map[string]*slots
}

// slots are the times at which statuses of a namespace are written.
type slots struct {
	// next is the next free slot, and took is the mean duration of the last writes.
	next time.Time
	took time.Duration
}

// book returns from when on a status may be written whose numbers have changed now.
func (p *pace) book(namespace string, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, sharing := p.of(namespace), 0
	of.next = moment.Last(of.next, now)
	slot := of.next.Add(delay())
	for _, each := range p.all {
		if !each.next.Before(now) {
			sharing++
		}
	}
	of.next = moment.First(of.next.Add(of.took*time.Duration(sharing)/numbersAtOnce), now.Add(longestDelay))
	return slot
}

// note records how long a write in a namespace took.
func (p *pace) note(namespace string, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of(namespace)
	of.took += (min(took, slowWrite) - of.took) / meanOf
}

// of returns the slots of a namespace, and forgets those that nobody has used for long. The caller holds the lock.
func (p *pace) of(namespace string) *slots {
	if p.all == nil {
		p.all = map[string]*slots{}
	}
	if p.all[namespace] == nil {
		forget := time.Now().Add(-longestDelay)
		maps.DeleteFunc(p.all, func(_ string, each *slots) bool { return each.next.Before(forget) })
		p.all[namespace] = &slots{next: time.Now()}
	}
	return p.all[namespace]
}

// delay returns how long numbers wait if few have changed.
func delay() time.Duration {
	return time.Duration(float64(numbersDelay) * (1 - numbersJitter + 2*numbersJitter*rand.Float64()))
}
