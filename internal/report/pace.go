// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// numbersDelay is how long after a change of only numbers the status is written, and numbersJitter is the fraction by
	// which that is randomly shorter or longer, so that writes spread. longestDelay replaces it if there are very many.
	numbersDelay  = time.Second
	numbersJitter = 0.25
	longestDelay  = 10 * time.Second
	// numbersShare is how much of the time such writes take, if they follow each other and take as long as the last ones.
	numbersShare = 0.25
	// slowWrite is the longest time that counts for that: what takes longer waits for an admission webhook.
	slowWrite = 100 * time.Millisecond
	// meanOf is the number of last writes in the mean of their durations.
	meanOf = 8
)

// pace delays the writes of statuses in which only numbers have changed. Such a write costs the API server as much as
// several creates of Jobs. So the more of them a namespace had just before, the later is the next one: each ScaledJob
// is then written less often, and the writes of a burst come when its Jobs are there. The namespaces share the time.
// The zero value is ready for use. pace is safe for concurrent use.
type pace struct {
	mu  sync.Mutex
	all map[string]*load
}

// load is what the writes of a namespace take.
type load struct {
	// factor is by how much the delay is longer. It was so at a time, and becomes less by the factor e in each
	// numbersDelay.
	factor float64
	at     time.Time
	// took is the mean duration of the last writes.
	took time.Duration
}

// book returns from when on a status may be written whose numbers have changed now.
func (p *pace) book(namespace string, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, sharing := p.of(namespace), 1
	for _, each := range p.all {
		if each != of && now.Sub(each.at) < numbersDelay {
			sharing++
		}
	}
	of.factor *= math.Exp(-now.Sub(of.at).Seconds() / numbersDelay.Seconds())
	wait := time.Duration(float64(delay()) * min(1+of.factor*float64(sharing), longestDelay.Seconds()/numbersDelay.Seconds()))
	of.factor, of.at = of.factor+of.took.Seconds()/numbersShare/numbersDelay.Seconds(), now
	return now.Add(wait)
}

// note records how long a write in a namespace took.
func (p *pace) note(namespace string, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of(namespace)
	of.took += (min(took, slowWrite) - of.took) / meanOf
}

// of returns the load of a namespace, and forgets those that are over. The caller holds the lock.
func (p *pace) of(namespace string) *load {
	if p.all == nil {
		p.all = map[string]*load{}
	}
	if p.all[namespace] == nil {
		forget := time.Now().Add(-longestDelay)
		maps.DeleteFunc(p.all, func(_ string, each *load) bool { return each.at.Before(forget) })
		p.all[namespace] = &load{at: time.Now()}
	}
	return p.all[namespace]
}

// delay returns how long numbers wait if few have changed.
func delay() time.Duration {
	return time.Duration(float64(numbersDelay) * (1 - numbersJitter + 2*numbersJitter*rand.Float64()))
}
