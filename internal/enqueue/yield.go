// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// quietTime is how long no Job of another ScaledJob was created when a status is written at once.
	quietTime = 20 * time.Millisecond
	// longestYield is how long a status waits while Jobs are created. It leaves a part of the second within which a
	// status is written to the write.
	longestYield = 800 * time.Millisecond
	// shortWrite is how long the next status waits at most for one that is being written while Jobs are created.
	shortWrite = 100 * time.Millisecond
)

// recent is when the places for creates were last taken or given back. A write of a status costs the API server as much
// as several creates, so creates of other ScaledJobs go before it.
type recent struct {
	key         types.NamespacedName
	last, other time.Time
}

// note notes a create of the ScaledJob.
func (r *recent) note(key types.NamespacedName, now time.Time) {
	if key != r.key {
		r.key, r.other = key, r.last
	}
	r.last = now
}

// busy reports whether Jobs of other ScaledJobs are being created. Creates under way count as long as they may cost the
// API server something.
func (p *Places) busy(key types.NamespacedName, now time.Time) bool {
	last := p.creates.last
	if key == p.creates.key {
		last = p.creates.other
	}
	if p.lines[KindCreate].inUse() > 0 {
		return now.Sub(last) < longestYield
	}
	return now.Sub(last) < quietTime
}

func (k Kind) isStatus() bool { return k == KindCondition || k == KindNumbers }

// status is a write of a status that began then.
type status struct{ began time.Time }

// busy reports whether the write costs the API server something. One that lasts for long waits for something else.
func (s *status) busy(now time.Time) bool { return s != nil && now.Sub(s.began) < shortWrite }

// begin notes that a request begins. Creates that are slow leave the API server time.
func (p *Places) begin(kind Kind, key types.NamespacedName) (end func()) {
	switch {
	case kind == KindCreate:
		p.creates.note(key, time.Now())
		return func() { p.creates.note(key, time.Now()) }
	case kind.isStatus():
		own := &status{time.Now()}
		p.written = own
		return func() {
			if p.written == own {
				p.written = nil
			}
		}
	}
	return func() { /* nobody yields to it */ }
}

// yielding returns what a status may take while Jobs are created: one place, if it has waited for long.
func (p *Places) yielding(in room, now time.Time) room {
	in.places, in.last, in.before = min(in.places, 1), 0, now.Add(-longestYield)
	if p.written.busy(now) {
		in.places = 0
	}
	return in
}

// callLater calls those who wait to write statuses after a while, when no Jobs are created any more, or when they have
// waited for long.
func (p *Places) callLater() {
	if p.callsLater || len(p.lines[KindCondition].tickets)+len(p.lines[KindNumbers].tickets) == 0 {
		return
	}
	p.callsLater = true
	time.AfterFunc(quietTime, func() {
		p.mu.Lock()
		p.callsLater = false
		p.mu.Unlock()
		p.call()
	})
}
