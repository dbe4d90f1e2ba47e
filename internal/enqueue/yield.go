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
	// shortWrite is how long a status has its turn at most while Jobs are created.
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

// noteCreate notes that creates begin or end. Those that may be slow leave the API server time.
func (p *Places) noteCreate(kind Kind, key types.NamespacedName) {
	if kind == KindCreate {
		p.creates.note(key, time.Now())
	}
}

func (k Kind) isStatus() bool { return k == KindCondition || k == KindNumbers }

// turn is the turn of a ScaledJob, of those that yield: from its call, or else from the beginning of its write, to the
// end of its write. The zero value is no turn.
type turn struct {
	key types.NamespacedName
	at  time.Time
}

// lasts reports whether the turn has not ended. A ScaledJob that does not come, and a write that lasts for long, end it:
// they cost the API server nothing.
func (t turn) lasts(now time.Time) bool { return now.Sub(t.at) < shortWrite }

// isOpen reports whether a request may be sent that has been wanted since then.
func (in room) isOpen(since time.Time) bool { return !in.yields || in.now.Sub(since) > longestYield }

// mayTurn reports whether the ScaledJob may send a request without waiting for the turn of another one.
func (l *line) mayTurn(key types.NamespacedName, in room) bool {
	return !in.yields || l.turn.key == key || !l.turn.lasts(in.now)
}

// mayCall reports whether a further ticket may be called.
func (l *line) mayCall(in room) bool {
	if in.yields {
		return !l.turn.lasts(in.now)
	}
	return in.places > l.called
}

func (l *line) endTurn(key types.NamespacedName) {
	if l.turn.key == key {
		l.turn = turn{}
	}
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
