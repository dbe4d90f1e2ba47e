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
	// idleRead is the idle time after which a connection for reads is closed, unless it is the only one, and
	// idleConnection the time after which that one is.
	idleRead       = 5 * time.Second
	idleConnection = 5 * time.Minute
	// idleSecured is idleConnection for TLS. Servers close idle connections. Before the library reuses a connection it
	// checks for that, but it cannot check a TLS connection.
	idleSecured = 30 * time.Second
	// fullFor is how long no more than one connection for reads is used after a server has said that it has too many
	// clients.
	fullFor = 10 * time.Second
)

// purpose is what a connection is for.
type purpose uint8

const (
	forReads purpose = iota
	forMessages
)

// permits limit the connections to one server that are open or are being made, for all its databases. The server has
// many other clients, and often a limit for all of them, so there are few, and those that are not needed are closed. It
// is safe for concurrent use.
type permits struct {
	most int
	// lastIdle is the idle time after which the only connection for reads is closed.
	lastIdle time.Duration

	mu    sync.Mutex
	taken map[*permit]struct{}
	// calls has the number of calls to each database, and waiting how many connections for it wait for a permit.
	calls, waiting map[int]int
	fullUntil      time.Time
	// stalled is when an open connection for reads last timed out.
	stalled time.Time
	// freed is closed, and replaced, when a permit may be free.
	freed chan struct{}
}

func newPermits(most int) *permits {
	return &permits{
		most: most, lastIdle: idleConnection, taken: map[*permit]struct{}{}, calls: map[int]int{}, waiting: map[int]int{}, freed: make(chan struct{}),
	}
}

// acquire waits for a permit until ctx is done. A connection that replaces another one gets its permit at once, and so
// does the first one for messages. If there are messages about so many databases that nothing would be left for reads,
// there are none about a further one. Reads get no further one while others of the same database are there.
func (p *permits) acquire(ctx context.Context, is purpose, database int, replaces bool) (*permit, error) {
	for {
		next, freed, err := p.tryAcquire(is, database, replaces)
		if next != nil || err != nil {
			return next, err
		}
		p.makeRoom()
		select {
		case <-freed:
		case <-ctx.Done():
			err = fmt.Errorf("%w: all connections to the server are in use: %w", failure.ErrBusy, context.Cause(ctx))
		}
		p.mu.Lock()
		decrement(p.waiting, waitsFor(is, database))
		p.mu.Unlock()
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

// tryAcquire acquires a permit, or returns a channel that is closed when one may be free. Then the caller counts as
// waiting.
func (p *permits) tryAcquire(is purpose, database int, replaces bool) (next *permit, freed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := replaces
	switch {
	case free:
	case is == forMessages:
		free, err = p.freeForMessages()
	default:
		free, err = p.freeForReads(database)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case !free:
		p.waiting[waitsFor(is, database)]++
		return nil, p.freed, nil
	}
	next = &permit{of: p, purpose: is, database: database, usedAt: time.Now()}
	p.taken[next] = struct{}{}
	return next, nil, nil
}

// freeForMessages reports whether there is a permit for messages about a database now. The error says that there will
// be none. Call it with the lock held.
func (p *permits) freeForMessages() (bool, error) {
	kept := p.count(forMessages)
	if kept >= p.most-1 {
		return false, fmt.Errorf("%w: the connections to the server are needed for messages about other databases", failure.ErrBusy)
	}
	return kept == 0 || p.count(forReads)+kept < p.most, nil
}

// freeForReads reports whether there is a permit for reads from a database now. The error says not to wait for one.
// Call it with the lock held.
func (p *permits) freeForReads(database int) (bool, error) {
	reads := p.count(forReads)
	switch {
	case reads == 0:
		return true, nil
	case p.full():
		return false, fmt.Errorf("%w: the server has too many clients", failure.ErrBusy)
	case reads < p.most-max(p.count(forMessages), reservedConnections):
		return true, nil
	case p.serves(database):
		return false, fmt.Errorf("%w: all connections to the server are in use", failure.ErrBusy)
	}
	return false, nil
}

// count returns the number of connections for a purpose. Call it with the lock held.
func (p *permits) count(of purpose) (found int) {
	for each := range p.taken {
		if each.purpose == of && !each.retired {
			found++
		}
	}
	return found
}

// retire has the connections for reads not count any longer: they are closed as soon as the calls on them have ended,
// and others take their place now.
func (p *permits) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for each := range p.taken {
		each.retired = each.retired || each.purpose == forReads
	}
}

// serves reports whether there is a connection for reads from a database. Call it with the lock held.
func (p *permits) serves(database int) bool {
	return p.some(func(each *permit) bool { return each.purpose == forReads && !each.retired && each.database == database })
}

// some reports whether there is such a connection. Call it with the lock held.
func (p *permits) some(is func(*permit) bool) bool {
	for each := range p.taken {
		if is(each) {
			return true
		}
	}
	return false
}

func (p *permits) full() bool { return time.Now().Before(p.fullUntil) }

// begin counts a call to a database until end is called.
func (p *permits) begin(database int) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[database]++
	return func() {
		p.mu.Lock()
		decrement(p.calls, database)
		wanted := len(p.waiting) > 0
		p.mu.Unlock()
		if wanted {
			p.makeRoom()
		}
	}
}

// makeRoom closes a connection for reads that is not in use, if a connection to another database waits.
func (p *permits) makeRoom() {
	p.mu.Lock()
	var closing net.Conn
	for each := range p.taken {
		if each.purpose == forReads && each.conn != nil && p.calls[each.database] == 0 && p.wanted(each.database) {
			closing = each.conn
			break
		}
	}
	p.mu.Unlock()
	if closing != nil {
		_ = closing.Close()
	}
}

// wanted reports whether a connection to another database than this waits for a permit. Call it with the lock held.
func (p *permits) wanted(database int) bool {
	return len(p.waiting) > 1 || len(p.waiting) == 1 && p.waiting[database] == 0
}

// giveBack closes the connections for reads except for one, because the server has too many clients. Those in use are
// closed when they are used next.
func (p *permits) giveBack() {
	p.mu.Lock()
	p.fullUntil = time.Now().Add(fullFor)
	var closing []net.Conn
	reads := p.count(forReads)
	for each := range p.taken {
		if reads > 1 && each.purpose == forReads && each.conn != nil && p.calls[each.database] == 0 {
			closing = append(closing, each.conn)
			reads--
		}
	}
	p.mu.Unlock()
	for _, conn := range closing {
		_ = conn.Close()
	}
}

// inUse returns the number of connections.
func (p *permits) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.taken)
}

// stalledSince reports whether an open connection for reads has timed out since began.
func (p *permits) stalledSince(began time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalled.After(began)
}

// serving reports whether a connection for reads works.
func (p *permits) serving() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.some(func(each *permit) bool { return each.purpose == forReads && each.conn != nil })
}

// anyReplica reports whether a connection leads to a server that said that it is a replica: behind one address there
// may be several servers.
func (p *permits) anyReplica() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.some(func(each *permit) bool { return each.replica })
}
