// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// line has the places of one kind of request: who has some, and who waits for one.
type line struct {
	// leave is the number of places that requests of this kind leave free for more urgent ones.
	leave int
	// held is the number of places in use by namespace.
	held map[string]int
	// tickets are the ScaledJobs that wait, and waiting has them by namespace in the order in which they came. turns are
	// the namespaces of these, the next one first.
	tickets map[types.NamespacedName]*ticket
	waiting map[string][]*ticket
	turns   []string
	// called is the number of tickets that are called.
	called int
	// turn is who may send a request, of all who yield.
	turn turn
}

// ticket is a ScaledJob that waits for a place.
type ticket struct {
	key   types.NamespacedName
	since time.Time
	state ticketState
}

type ticketState int

const (
	// queued means that the ScaledJob waits for a place.
	queued ticketState = iota
	// called means that a place is free for it, and that its reconcile was requested.
	called
	// away means that its reconcile came and ended early. It keeps its turn, but others need not wait for it.
	away
)

func newLine(leave int) line {
	return line{
		leave: leave, held: map[string]int{},
		tickets: map[types.NamespacedName]*ticket{}, waiting: map[string][]*ticket{},
	}
}

// room is what a line may give away.
type room struct {
	// places is the number of places that requests of this kind may still take.
	places int
	// last is how many of them are for namespaces that have no place of any kind, and settled are the namespaces that
	// have one.
	last    int
	settled map[string]bool
	// yields is true if the requests yield to creates, now.
	yields bool
	now    time.Time
}

// fits reports whether the namespace may take a place, with this room, and this many others of the namespace before it:
// it may have as many places as there is room. So one namespace gets at most half of the places, and the more namespaces
// share them, the less each gets. Places for which tickets are called, except that of the asking one, count as taken, but
// not for requests that yield: they have turns, which end.
func (l *line) fits(namespace string, in room, ahead int, isCalled bool) bool {
	others := l.called
	if isCalled {
		others--
	}
	if in.yields {
		others = 0
	}
	places, share := in.places-others, l.held[namespace]+ahead
	if in.settled[namespace] && places <= in.last {
		return false
	}
	return share < places
}

// inUse returns the number of places in use.
func (l *line) inUse() (places int) {
	for _, held := range l.held {
		places += held
	}
	return places
}

// take reports whether the ScaledJob may have a place now, for a request that has been wanted since then. Otherwise it
// waits for one.
func (l *line) take(key types.NamespacedName, in room, since time.Time) bool {
	own := l.tickets[key]
	isCalled := own != nil && own.state == called
	if !in.isOpen(since) || !l.mayTurn(key, in) || !l.fits(key.Namespace, in, l.ahead(key, in.places), isCalled) {
		if own == nil {
			l.join(key, since)
		} else {
			l.set(own, queued)
		}
		return false
	}
	l.drop(key)
	l.held[key.Namespace]++
	if in.yields {
		l.turn = turn{key, in.now}
	}
	return true
}

// giveBack returns the place of the ScaledJob.
func (l *line) giveBack(key types.NamespacedName) {
	if l.held[key.Namespace]--; l.held[key.Namespace] == 0 {
		delete(l.held, key.Namespace)
	}
	l.endTurn(key)
}

// ahead returns how many tickets of the namespace come before the ScaledJob, and no more than limit.
func (l *line) ahead(key types.NamespacedName, limit int) (ahead int) {
	for _, other := range l.waiting[key.Namespace] {
		if other.key == key || ahead == limit {
			break
		}
		if other.state != away {
			ahead++
		}
	}
	return ahead
}

// call calls the tickets for which places are free, one of each namespace in turn, and returns their ScaledJobs.
func (l *line) call(in room) (keys []types.NamespacedName) {
	for missed := 0; missed < len(l.turns) && l.mayCall(in); {
		namespace := l.turns[0]
		l.turns = append(l.turns[1:], namespace)
		next := l.next(namespace, in)
		if next == nil {
			missed++
			continue
		}
		l.set(next, called)
		if in.yields {
			l.turn = turn{next.key, in.now}
		}
		keys, missed = append(keys, next.key), 0
	}
	return keys
}

// next returns the ticket of the namespace to call next; nil if it has none that fits.
func (l *line) next(namespace string, in room) *ticket {
	ahead := 0
	for _, each := range l.waiting[namespace] {
		switch each.state {
		case called:
			ahead++
		case queued:
			if in.isOpen(each.since) && l.fits(namespace, in, ahead, false) {
				return each
			}
			return nil
		case away:
		}
	}
	return nil
}

func (l *line) join(key types.NamespacedName, since time.Time) {
	entry := &ticket{key: key, since: since}
	l.tickets[key] = entry
	if len(l.waiting[key.Namespace]) == 0 {
		l.turns = append(l.turns, key.Namespace)
	}
	l.waiting[key.Namespace] = append(l.waiting[key.Namespace], entry)
}

// drop removes the ticket of a ScaledJob, if it has one.
func (l *line) drop(key types.NamespacedName) {
	own := l.tickets[key]
	if own == nil {
		return
	}
	l.set(own, away)
	delete(l.tickets, key)
	left := slices.DeleteFunc(l.waiting[key.Namespace], func(other *ticket) bool { return other == own })
	if l.waiting[key.Namespace] = left; len(left) == 0 {
		delete(l.waiting, key.Namespace)
		l.turns = slices.DeleteFunc(l.turns, func(other string) bool { return other == key.Namespace })
	}
}

// set sets the state of a ticket.
func (l *line) set(own *ticket, state ticketState) {
	if own.state == called {
		l.called--
		l.endTurn(own.key)
	}
	if own.state = state; state == called {
		l.called++
	}
}
