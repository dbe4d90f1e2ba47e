// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// lateness is how long after a change of only numbers the status is written, and lateJitter is the fraction by which
	// that is randomly shorter or longer, so that writes spread.
	lateness   = time.Second
	lateJitter = 0.25
	// numbersAtOnce is how many statuses in which only numbers have changed are written at the same time, if writes take as
	// long as the last ones did.
	numbersAtOnce = 2
	// slowWrite is from which duration on a write does not count: it waits for an admission webhook, and costs the API
	// server nothing.
	slowWrite = 100 * time.Millisecond
	// tookWeight is the weight of the last write in the mean duration: one in so many.
	tookWeight = 8
)

// pace spreads the writes of statuses in which only numbers have changed. Such a write costs the API server as much as
// several creates of Jobs, so it is late, and the statuses of a namespace follow each other as fast as few writes at a time
// allow. The namespaces share that rate. The zero value is ready for use. pace is safe for concurrent use.
type pace struct {
	mu sync.Mutex
	// next is from when on the next status of a namespace is late, for those that have booked until then. took is how long
	// writes took in the mean.
	next map[string]time.Time
	took time.Duration
}

// book returns when a status that has changed now is to be written, at the latest. urgent is true if conditions have
// changed; such writes do not hold up others.
func (p *pace) book(namespace string, urgent bool, now time.Time) time.Time {
	if urgent {
		return now.Add(late())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.next, func(_ string, next time.Time) bool { return !next.After(now) })
	at, busy := p.next[namespace]
	sharing := len(p.next)
	if !busy {
		at, sharing = now, sharing+1
	}
	if p.next == nil {
		p.next = map[string]time.Time{}
	}
	p.next[namespace] = at.Add(p.took * time.Duration(sharing) / numbersAtOnce)
	return at.Add(late())
}

// note records how long a write took.
func (p *pace) note(took time.Duration) {
	if took >= slowWrite {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took += (took - p.took) / tookWeight
}

// late returns how long numbers wait if few have changed.
func late() time.Duration {
	return time.Duration(float64(lateness) * (1 - lateJitter + 2*lateJitter*rand.Float64()))
}
