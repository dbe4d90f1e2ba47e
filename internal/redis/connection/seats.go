// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// DefaultConnections is the default of [Options.Connections].
	DefaultConnections = 6
	// LeastConnections is the least that works: two connections for messages, of which one may replace the other, and one
	// for reads.
	LeastConnections = 3
	// reservedConnections are those that reads leave to messages.
	reservedConnections = LeastConnections - 1
	// idleRead is the idle time after which a connection for reads is closed, unless it is the only one, and idleConnection
	// the time after which that one is.
	idleRead       = 5 * time.Second
	idleConnection = 5 * time.Minute
	// idleSecured is idleConnection for TLS. Servers close idle connections. Before the library reuses a connection it
	// checks for that, but it cannot check a TLS connection.
	idleSecured = 30 * time.Second
	// fullFor is how long no more than one connection for reads is used after a server has said that it has too many clients.
	fullFor = 10 * time.Second
)

// purpose is what a connection is for.
type purpose uint8

const (
	forReads purpose = iota
	forMessages
)

// seats are the connections to one server that are open or are being made, for all its databases. The server has many other
// clients, and often a limit for all of them, so there are few, and those that are not needed are given back. It is safe for
// concurrent use.
type seats struct {
	most int
	// lastIdle is the idle time after which the only connection for reads is closed.
	lastIdle time.Duration

	mu    sync.Mutex
	taken map[*seat]struct{}
	// calls has the number of calls to each database, and waiting how many connections for it wait for a seat.
	calls, waiting map[int]int
	fullUntil      time.Time
	// stalled is when an open connection for reads last timed out.
	stalled time.Time
	// freed is closed, and replaced, when a seat may be free.
	freed chan struct{}
}

func newSeats(most int) *seats {
	return &seats{
		most: most, lastIdle: idleConnection, taken: map[*seat]struct{}{}, calls: map[int]int{}, waiting: map[int]int{}, freed: make(chan struct{}),
	}
}

// take waits for a seat until ctx is done. A connection that replaces another one gets its seat at once, and so does the
// first one for messages. If there are messages about so many databases that nothing would be left for reads, there are
// none about a further one. Reads get no further one while others of the same database are there.
func (s *seats) take(ctx context.Context, is purpose, database int, replaces bool) (*seat, error) {
	for {
		next, freed, err := s.tryTake(is, database, replaces)
		if next != nil || err != nil {
			return next, err
		}
		s.makeRoom()
		select {
		case <-freed:
		case <-ctx.Done():
			err = fmt.Errorf("%w: all connections to the server are in use: %w", failure.ErrBusy, context.Cause(ctx))
		}
		s.mu.Lock()
		decrement(s.waiting, waitsFor(is, database))
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// waitsFor returns what a connection waits for: the database of reads, or a number that no database has.
func waitsFor(is purpose, database int) int {
	if is == forReads {
		return database
	}
	return -1
}

// tryTake takes a seat, or returns a channel that is closed when one may be free. Then the caller counts as waiting.
func (s *seats) tryTake(is purpose, database int, replaces bool) (next *seat, freed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := replaces
	switch {
	case free:
	case is == forMessages:
		free, err = s.freeForMessages()
	default:
		free, err = s.freeForReads(database)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case !free:
		s.waiting[waitsFor(is, database)]++
		return nil, s.freed, nil
	}
	next = &seat{of: s, purpose: is, database: database, usedAt: time.Now()}
	s.taken[next] = struct{}{}
	return next, nil, nil
}

// freeForMessages reports whether there is a seat for messages about a database now. The error says that there will be
// none. Call it with the lock held.
func (s *seats) freeForMessages() (bool, error) {
	kept := s.count(forMessages)
	if kept >= s.most-1 {
		return false, fmt.Errorf("%w: the connections to the server are needed for messages about other databases", failure.ErrBusy)
	}
	return kept == 0 || s.count(forReads)+kept < s.most, nil
}

// freeForReads reports whether there is a seat for reads from a database now. The error says not to wait for one. Call it
// with the lock held.
func (s *seats) freeForReads(database int) (bool, error) {
	reads := s.count(forReads)
	switch {
	case reads == 0:
		return true, nil
	case s.full():
		return false, fmt.Errorf("%w: the server has too many clients", failure.ErrBusy)
	case reads < s.most-max(s.count(forMessages), reservedConnections):
		return true, nil
	case s.serves(database):
		return false, fmt.Errorf("%w: all connections to the server are in use", failure.ErrBusy)
	}
	return false, nil
}

// count returns the number of connections for a purpose. Call it with the lock held.
func (s *seats) count(of purpose) (found int) {
	for each := range s.taken {
		if each.purpose == of && !each.retired {
			found++
		}
	}
	return found
}

// retire has the connections for reads not count any longer: they are closed as soon as the calls on them have ended, and
// others take their place now.
func (s *seats) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for each := range s.taken {
		each.retired = each.retired || each.purpose == forReads
	}
}

// serves reports whether there is a connection for reads from a database. Call it with the lock held.
func (s *seats) serves(database int) bool {
	return s.some(func(each *seat) bool { return each.purpose == forReads && !each.retired && each.database == database })
}

// some reports whether there is such a connection. Call it with the lock held.
func (s *seats) some(is func(*seat) bool) bool {
	for each := range s.taken {
		if is(each) {
			return true
		}
	}
	return false
}

func (s *seats) full() bool { return time.Now().Before(s.fullUntil) }

// begin counts a call to a database until end is called.
func (s *seats) begin(database int) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[database]++
	return func() {
		s.mu.Lock()
		decrement(s.calls, database)
		wanted := len(s.waiting) > 0
		s.mu.Unlock()
		if wanted {
			s.makeRoom()
		}
	}
}

// makeRoom closes a connection for reads that is not in use, if a connection to another database waits.
func (s *seats) makeRoom() {
	s.mu.Lock()
	var closing net.Conn
	for each := range s.taken {
		if each.purpose == forReads && each.conn != nil && s.calls[each.database] == 0 && s.wanted(each.database) {
			closing = each.conn
			break
		}
	}
	s.mu.Unlock()
	if closing != nil {
		_ = closing.Close()
	}
}

// wanted reports whether a connection to another database than this waits for a seat. Call it with the lock held.
func (s *seats) wanted(database int) bool {
	return len(s.waiting) > 1 || len(s.waiting) == 1 && s.waiting[database] == 0
}

// giveBack closes the connections for reads except for one, because the server has too many clients. Those in use are closed
// when they are used next.
func (s *seats) giveBack() {
	s.mu.Lock()
	s.fullUntil = time.Now().Add(fullFor)
	var closing []net.Conn
	reads := s.count(forReads)
	for each := range s.taken {
		if reads > 1 && each.purpose == forReads && each.conn != nil && s.calls[each.database] == 0 {
			closing = append(closing, each.conn)
			reads--
		}
	}
	s.mu.Unlock()
	for _, conn := range closing {
		_ = conn.Close()
	}
}

// inUse returns the number of connections.
func (s *seats) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
}

// stalledSince reports whether an open connection for reads has timed out since began.
func (s *seats) stalledSince(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stalled.After(began)
}

// serving reports whether a connection for reads works.
func (s *seats) serving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.some(func(each *seat) bool { return each.purpose == forReads && each.conn != nil })
}

// anyReplica reports whether a connection leads to a server that said that it is a replica: behind one address there may be
// several servers.
func (s *seats) anyReplica() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.some(func(each *seat) bool { return each.replica })
}
