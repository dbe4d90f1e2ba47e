// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Kind is a kind of request to the API server. The kinds are in the order of their urgency.
type Kind int

const (
	// KindCreate is for creates of Jobs.
	KindCreate Kind = iota
	// KindSlowCreate is for creates with the long timeout.
	KindSlowCreate
	// KindCondition is for writes of statuses in which conditions have changed.
	KindCondition
	// KindRollout is for dry runs of templates for which running Jobs are to be replaced.
	KindRollout
	// KindDryRun is for all other dry runs. They leave others no more places than KindCondition does: otherwise the status
	// of a new ScaledJob would be written before the dry run, and again after it.
	KindDryRun
	// KindDelete is for deletes of Jobs.
	KindDelete
	// KindNumbers is for writes of statuses in which only numbers have changed.
	KindNumbers

	kinds
)

const (
	// leaveFew is the part of the places that requests leave to more urgent ones if a ScaledJob waits for their answer,
	// and leaveMany is the part if none does: one in so many.
	leaveFew  = 4
	leaveMany = 2
	// lastPart is the part of the places that is for namespaces that have none: one in so many.
	lastPart = 8
)

// Places bounds how many workers wait for the API server at the same time, by namespace and kind of request. An
// admission webhook may make every request about one namespace slow. A place is for one worker. A reconcile that gets
// none goes on without the request, and is requested again when a place is free. Nothing is reserved for a ScaledJob
// that does not come. Places is safe for concurrent use.
type Places struct {
	request func(priority int, keys ...types.NamespacedName)

	workers int

	mu    sync.Mutex
	free  int
	lines [kinds]line
	// creates are the last creates. callsLater is true while a timer is to call those who leave the API server to them.
	creates    recent
	callsLater bool
}

// NewPlaces returns as many places as there are workers. request requests reconciles; it must not block.
func NewPlaces(workers int, request func(priority int, keys ...types.NamespacedName)) *Places {
	p := &Places{request: request, workers: workers, free: workers}
	for kind := range p.lines {
		p.lines[kind] = newLine(left(Kind(kind), workers))
	}
	return p
}

// left returns how many places requests of a kind leave to more urgent ones.
func left(kind Kind, workers int) int {
	switch kind {
	case KindCreate:
		return 0
	case KindSlowCreate, KindCondition, KindRollout, KindDryRun:
		return workers / leaveFew
	default:
		return workers / leaveMany
	}
}

// room returns what requests of a kind may still take. It is never what more urgent requests are left, however many
// places these have. creating says
// that Jobs are being created.
func (p *Places) room(kind Kind, creating bool, now time.Time) room {
	in := room{places: p.free, last: p.workers / lastPart, settled: map[string]bool{}, now: now}
	for each := range p.lines {
		if leave := p.lines[each].leave; leave <= p.lines[kind].leave {
			in.places = min(in.places, p.workers-leave-p.usedBy(leave))
		}
		for namespace := range p.lines[each].held {
			in.settled[namespace] = true
		}
	}
	in.yields = creating && kind.isStatus()
	return in
}

// usedBy returns how many places are in use by requests that leave as many places, or more.
func (p *Places) usedBy(leave int) (used int) {
	for kind := range p.lines {
		if p.lines[kind].leave >= leave {
			used += p.lines[kind].inUse()
		}
	}
	return used
}

// priority returns the priority of the reconcile for which a place is free.
func (k Kind) priority() int {
	switch k {
	case KindCreate, KindSlowCreate:
		return PriorityGrowth
	case KindNumbers:
		return PriorityResync
	default:
		return PriorityNormal
	}
}

// Pass is one reconcile of a ScaledJob. A ScaledJob has one at a time.
type Pass struct {
	places *Places
	key    types.NamespacedName
	asked  [kinds]bool
}

// Begin begins a reconcile.
func (p *Places) Begin(key types.NamespacedName) *Pass { return &Pass{places: p, key: key} }

// Take takes a place for a request of this kind, and returns how to give it back. If there is none, it returns nil, and
// a reconcile is requested when there is.
func (p *Pass) Take(kind Kind) (giveBack func()) { return p.TakeSince(kind, time.Now()) }

// TakeSince is like Take, for a request that has been wanted since then.
func (p *Pass) TakeSince(kind Kind, since time.Time) (giveBack func()) {
	p.asked[kind] = true
	places, now := p.places, time.Now()
	places.mu.Lock()
	defer places.mu.Unlock()
	if !places.lines[kind].take(p.key, places.room(kind, places.busy(p.key, now), now), since) {
		return nil
	}
	places.free--
	places.noteCreate(kind, p.key)
	return func() {
		places.mu.Lock()
		places.lines[kind].giveBack(p.key)
		places.free++
		places.noteCreate(kind, p.key)
		places.mu.Unlock()
		places.call()
	}
}

// Waits returns since when the ScaledJob has waited for a place of this kind; zero if it does not.
func (p *Pass) Waits(kind Kind) time.Time {
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	if own := p.places.lines[kind].tickets[p.key]; own != nil {
		return own.since
	}
	return time.Time{}
}

// Ending is how a reconcile ends.
type Ending int

const (
	// EndedEarly means that it did not come to all its requests, and did not fail.
	EndedEarly Ending = iota
	// EndedFully means that it has asked for every place that it needs.
	EndedFully
	// EndedFailing means that the ScaledJob is reconciled again after a delay.
	EndedFailing
)

// End ends a reconcile. The ScaledJob no longer waits for places that it did not ask for, or for any if the reconcile
// failed, because others must not wait for its delay. If it ended early, it keeps its turns.
func (p *Pass) End(how Ending) {
	places := p.places
	places.mu.Lock()
	for kind := range places.lines {
		line := &places.lines[kind]
		own := line.tickets[p.key]
		switch {
		case own == nil || how != EndedFailing && p.asked[kind]:
		case how == EndedEarly && own.state == called:
			line.set(own, away)
		case how != EndedEarly:
			line.drop(p.key)
		}
	}
	places.mu.Unlock()
	places.call()
}

// call requests reconciles of the ScaledJobs for which places are free, the most urgent requests first.
func (p *Places) call() {
	var keys [kinds][]types.NamespacedName
	p.mu.Lock()
	if !p.isAwaited() {
		p.mu.Unlock()
		return
	}
	now := time.Now()
	creating := p.busy(types.NamespacedName{}, now)
	for kind := range p.lines {
		keys[kind] = p.lines[kind].call(p.room(Kind(kind), creating, now))
	}
	if creating {
		p.callLater()
	}
	p.mu.Unlock()
	for kind, each := range keys {
		if len(each) > 0 {
			p.request(Kind(kind).priority(), each...)
		}
	}
}

// isAwaited reports whether anybody waits for a place.
func (p *Places) isAwaited() bool {
	return slices.ContainsFunc(p.lines[:], func(line line) bool { return len(line.tickets) > 0 })
}
