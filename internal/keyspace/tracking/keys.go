// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tracking

import (
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// ID identifies who watches a key.
type ID = coalesce.ID

// Key is a key of one database.
type Key struct {
	Name string
	// Class is the class of the command that reads the length of the key.
	Class verify.Class
	// Asking means that the key is read after ASKING, because its slot is being moved to this node of a Cluster.
	Asking bool
}

// quietReplies is how many equal lengths in a row are taken for growth. A server whose table of tracked keys is full
// sends invalidations although nothing has changed.
const quietReplies = 3

// state is the state of a key in the current session.
type state int

const (
	unarmed state = iota // to be read as soon as the spacing allows
	arming               // the read was taken for sending and has no reply yet
	armed                // read; the server tells of the next change
	refused              // the read was rejected; not repeated before retryAt
)

// keySet has the keys of one database, who watches them, and which of them must be read so that the server tracks them.
// It is safe for concurrent use.
type keySet struct {
	mark    func(id ID, cause coalesce.Cause)
	budgets *budget.Namespaces
	// due spaces the reads of each key as the wakes of an id are spaced.
	due *coalesce.Coalescer[Key]

	mu   sync.Mutex
	keys map[Key]*entry
	// refused has when each refused key becomes due again. None becomes due before retryAt.
	refused map[Key]time.Time
	retryAt time.Time
	// open means that there is a session.
	open bool
}

// entry is a key that is watched.
type entry struct {
	ids   map[ID]bool // the value says whether the id is idle
	state state
	// tracked means that the key was armed in this session: it is armed, or about to be armed again. confirmed means
	// that it was armed on the current connection of the session.
	tracked, confirmed bool
	// length is the last reply of this session, and equal how many replies in a row had the same length.
	length int64
	equal  int
	// crowded means that all namespaces that watch the key have taken too many events.
	crowded bool
	// seenAt is when the key was last armed, or a change of it told.
	seenAt time.Time
}

func newKeySet(mark func(id ID, cause coalesce.Cause), budgets *budget.Namespaces) *keySet {
	return &keySet{
		mark: mark, budgets: budgets, due: coalesce.NewCoalescer[Key](),
		keys: map[Key]*entry{}, refused: map[Key]time.Time{},
	}
}

// add makes id, which may be idle, watch the key. It reports whether the key is armed already, so that nothing else wakes
// the id.
func (s *keySet) add(key Key, id ID, idle bool) (already bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.keys[key]
	if !ok {
		e = &entry{ids: map[ID]bool{}}
		s.keys[key] = e
		s.due.Add(key)
		if s.open {
			s.due.Mark(key, coalesce.Confirmed)
		}
	}
	e.ids[id] = idle
	s.pace(key, e)
	return e.state == armed
}

// remove ends the watching that add began. The server may still send one invalidation of the key.
func (s *keySet) remove(key Key, id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.keys[key]
	if !ok {
		return
	}
	delete(e.ids, id)
	if len(e.ids) > 0 {
		s.pace(key, e)
		return
	}
	delete(s.keys, key)
	delete(s.refused, key)
	s.due.Remove(key)
}

// setIdle says whether id can create nothing now.
func (s *keySet) setIdle(key Key, id ID, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.keys[key]
	if !ok {
		return
	}
	if _, watches := e.ids[id]; watches && e.ids[id] != idle {
		e.ids[id] = idle
		s.pace(key, e)
	}
}

// pace sets how often the key is read: once a second while nobody can use its growth, while nothing changes, or while
// those who watch it have taken too many events.
func (s *keySet) pace(key Key, e *entry) {
	idle := true
	for _, each := range e.ids {
		idle = idle && each
	}
	s.due.SetIdle(key, idle || e.equal >= quietReplies || e.crowded)
}

// begin records that there is a connection: all keys are due.
func (s *keySet) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	for key := range s.keys {
		s.due.Mark(key, coalesce.Confirmed)
	}
}

// end records the end of a connection: the server tracks nothing any longer. If the session moves to another connection,
// all keys are armed there at once. Otherwise it marks the ids whose keys were tracked.
func (s *keySet) end(moves bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	clear(s.refused)
	for _, e := range s.keys {
		if e.tracked && !moves {
			s.markAll(e, coalesce.Lost)
			e.tracked = false
		}
		e.state, e.confirmed = unarmed, false
	}
}

// take returns up to limit keys to read now.
func (s *keySet) take(limit int) []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken []Key
	for len(taken) < limit {
		next, ok := s.due.Take()
		if !ok {
			break
		}
		if e := s.keys[next.ID]; e != nil && e.state == unarmed {
			e.state = arming
			taken = append(taken, next.ID)
		}
	}
	return taken
}

// read records the reply to a read: the key is armed. It marks all ids that watch the key, because the key may have
// changed since it was last armed. An equal length may hide that one element was added and another one removed, so it
// counts as growth, but not for ever.
func (s *keySet) read(key Key, length int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.keys[key]
	if !ok {
		return
	}
	cause := coalesce.Growth
	if length == e.length && e.confirmed {
		e.equal++
	} else {
		e.equal = 0
	}
	switch {
	case !e.confirmed:
		cause = coalesce.Confirmed
		e.tracked, e.confirmed = true, true
	case length < e.length || e.equal >= quietReplies:
		cause = coalesce.Shrink
	}
	e.state, e.length, e.seenAt = armed, length, time.Now()
	e.crowded = s.spend(e)
	s.pace(key, e)
	s.markAll(e, cause)
}

// spend counts a reply once for each id that it wakes. It reports whether all namespaces that watch the key have taken
// too many events.
func (s *keySet) spend(e *entry) (crowded bool) {
	now := time.Now()
	crowded = true
	for id := range e.ids {
		crowded = !s.budgets.Spend(id.Namespace, now) && crowded
	}
	return crowded
}

// refuse records that the server rejected a read: the key is not tracked. The read is repeated at retryAt.
func (s *keySet) refuse(key Key, retryAt time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.keys[key]
	if !ok {
		return
	}
	if e.tracked {
		s.markAll(e, coalesce.Lost)
		e.tracked, e.confirmed = false, false
	}
	e.state = refused
	s.due.SetIdle(key, true)
	if len(s.refused) == 0 || retryAt.Before(s.retryAt) {
		s.retryAt = retryAt
	}
	s.refused[key] = retryAt
}

// retry makes the refused keys due again whose time has come. It returns when the next one's time may come; zero means
// never.
func (s *keySet) retry(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) == 0 {
		return time.Time{}
	}
	if now.Before(s.retryAt) {
		return s.retryAt
	}
	s.retryAt = time.Time{}
	for key, at := range s.refused {
		switch {
		case !now.Before(at):
			delete(s.refused, key)
			s.keys[key].state = unarmed
			s.due.Mark(key, coalesce.Confirmed)
		case s.retryAt.IsZero() || at.Before(s.retryAt):
			s.retryAt = at
		}
	}
	return s.retryAt
}

// changed records that the server told of a change of the keys with this name. It reports whether one of them was
// armed. If not, nobody asked for it.
func (s *keySet) changed(name string) (asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for class := range readCommands {
		for _, asking := range []bool{false, true} {
			key := Key{Name: name, Class: class, Asking: asking}
			if e, ok := s.keys[key]; ok && s.disarm(key, e) {
				asked = true
			}
		}
	}
	return asked
}

// changedAll records that the server told of a change of all keys, after a flush. It reports whether one of them was
// armed.
func (s *keySet) changedAll() (asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		if s.disarm(key, e) {
			asked = true
		}
	}
	return asked
}

// disarm records that the server no longer tracks a key, which is then due. Redis also tracks a key whose read it
// rejected because of the key's type. It reports whether the key was armed.
func (s *keySet) disarm(key Key, e *entry) (wasArmed bool) {
	wasArmed = e.state == armed
	if !wasArmed && e.state != refused {
		return false
	}
	delete(s.refused, key)
	e.state, e.seenAt = unarmed, time.Now()
	s.due.Mark(key, coalesce.Growth)
	return wasArmed
}

func (s *keySet) markAll(e *entry, cause coalesce.Cause) {
	for id := range e.ids {
		s.mark(id, cause)
	}
}

// wakeAll marks all ids whose keys are tracked.
func (s *keySet) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		if e.tracked {
			s.markAll(e, coalesce.Changed)
		}
	}
}

// stateOf returns what is known about a key.
func (s *keySet) stateOf(key Key) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.keys[key]
	if !ok {
		return State{}
	}
	return State{
		Tracked: e.tracked,
		Armed:   verify.Subscription{Present: e.state == armed, Since: e.seenAt, HeardAt: e.seenAt},
	}
}
