// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// mostAsked is how many servers of a deployment are asked where keys are, and mostMasters how many masters it may
	// have. listenTimeout is how long a sentinel may be silent, and refusedInterval the time until it is asked again to tell
	// of new masters, if it has refused.
	mostAsked       = 64
	mostMasters     = 256
	listenTimeout   = time.Minute
	refusedInterval = time.Minute
	// answerLife is how long an answer counts. A master that no sentinel has named for so long is not used: there may be
	// a new one by now. It is longer than the timeout of a question and the time until the next.
	answerLife = 5 * time.Second
	// refreshTimeout bounds how long a worker waits for the answer to where a key has moved.
	refreshTimeout = 250 * time.Millisecond
)

// deployment is what differs between a deployment with sentinels and a Cluster.
type deployment interface {
	// server returns the endpoint of a server to ask.
	server(address string) auth.Endpoint
	// ask asks a server.
	ask(ctx context.Context, conn *connection.Conn) (answer, error)
	// decide returns what follows from what was said, by servers of which so many are asked; nil if nothing does. known is
	// what is known so far; it may be nil.
	decide(said []answer, asked int, known *view) *view
	// explain returns why nothing is known, by the error of one of the servers.
	explain(cause *failure.Error) *failure.Error
	// wanted returns the addresses of the servers to ask.
	wanted(answers []answer, known *view) []string
}

// view is what is known about a deployment. It does not change.
type view struct {
	// err is why nothing is known; nil if something is.
	err *failure.Error
	// masters are the masters. A deployment with sentinels has one, and epoch is the number of the failover that made it
	// one.
	masters []auth.Endpoint
	epoch   uint64
	// owners has, for each slot of a Cluster, the index of its master plus 1; 0 if there is none. It is nil with
	// sentinels.
	owners []uint16
	// importing has the servers to which slots are being moved.
	importing map[uint16]auth.Endpoint
}

// same reports whether keys are at the same places.
func (v *view) same(as *view) bool {
	return (v.err == nil) == (as.err == nil) && slices.Equal(v.masters, as.masters) && slices.Equal(v.owners, as.owners) &&
		maps.Equal(v.importing, as.importing)
}

// follower follows one deployment.
type follower struct {
	deployment
	endpoint auth.Endpoint
	pool     *connection.Pool
	log      logr.Logger
	// changed is set when a place may have changed.
	changed chan<- struct{}
	// gone is closed when nobody uses the deployment any longer. users is how many do. The lock of the Directory guards
	// it.
	gone  chan struct{}
	users int

	// news has a token when there is an answer that was not considered.
	news chan struct{}

	mu      sync.Mutex
	answers map[string]answer
	pollers map[string]*poller
	known   *view
	// heard is closed, and replaced, after answers were considered. asked is when the latest of them was asked.
	heard chan struct{}
	asked time.Time

	versions atomic.Uint64
	used     usage
}

func newFollower(pool *connection.Pool, e auth.Endpoint, changed chan<- struct{}, log logr.Logger) *follower {
	f := &follower{
		endpoint: e, pool: pool, log: log, changed: changed, gone: make(chan struct{}), news: make(chan struct{}, 1),
		answers: map[string]answer{}, pollers: map[string]*poller{}, heard: make(chan struct{}),
	}
	if e.Mode == auth.ModeSentinel {
		f.deployment = sentinels{e}
	} else {
		f.deployment = cluster{e, &f.used}
	}
	return f
}

// run asks servers until nobody uses the deployment any longer or ctx is done.
func (f *follower) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	for {
		f.adjust(ctx, &asking)
		select {
		case <-ctx.Done():
			return
		case <-f.gone:
			stop()
			return
		case <-f.news:
		case <-ticker.C: // Answers may have become old.
		}
		f.consider(time.Now())
	}
}

// adjust asks the servers that are to be asked, and no others.
func (f *follower) adjust(ctx context.Context, asking *sync.WaitGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := f.wanted(slices.Collect(maps.Values(f.answers)), f.known)
	for address, p := range f.pollers {
		if !slices.Contains(wanted, address) {
			p.stop()
			delete(f.pollers, address)
			delete(f.answers, address)
		}
	}
	for _, address := range wanted {
		if f.pollers[address] != nil {
			continue
		}
		polling, stop := context.WithCancel(ctx)
		p := &poller{
			address: address, conn: f.pool.Conn(f.server(address), 0), ask: f.ask, hurry: make(chan struct{}, 1), stop: stop,
		}
		f.pollers[address] = p
		asking.Go(func() { p.run(polling, func(said answer) { f.note(p, said) }) })
		if f.endpoint.Mode == auth.ModeSentinel {
			asking.Go(func() { f.listen(polling, p.conn) })
		}
	}
}

// note takes an answer, unless its server is not asked any longer. After an error, what the server said before counts
// for a while.
func (f *follower) note(from *poller, said answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pollers[from.address] != from {
		return
	}
	if before := f.answers[from.address]; said.err != nil {
		said.asked, said.by, said.nodes = before.asked, before.by, before.nodes
	}
	f.answers[from.address] = said
	set(f.news)
}

// consider publishes what follows from the answers.
func (f *follower) consider(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var said []answer
	for _, address := range slices.Sorted(maps.Keys(f.answers)) {
		each := f.answers[address]
		if now.Sub(each.asked) < answerLife {
			said = append(said, each)
		}
		if each.asked.After(f.asked) {
			f.asked = each.asked
		}
	}
	next := f.decide(said, len(f.pollers), f.known)
	if next == nil {
		cause := worst(slices.Collect(maps.Values(f.answers)))
		if cause == nil {
			return // The first answers are still to come.
		}
		next = &view{err: f.explain(cause)}
	}
	if f.known == nil || !f.known.same(next) {
		f.describe(next)
		f.versions.Add(1)
		set(f.changed)
	}
	f.known = next
	close(f.heard)
	f.heard = make(chan struct{})
}

// describe logs what is new.
func (f *follower) describe(next *view) {
	if next.err != nil {
		f.log.Info("The servers of a Redis deployment do not say where keys are", "reason", next.err.Reason, "cause", next.err.Cause())
		return
	}
	if f.known == nil || f.known.err != nil || !slices.Equal(f.known.masters, next.masters) {
		addresses := make([]string, len(next.masters))
		for i, each := range next.masters {
			addresses[i] = each.Address
		}
		f.log.Info("The masters of a Redis deployment", "addresses", addresses)
	}
}

// locate returns where a key is.
func (f *follower) locate(key string) (Place, error) {
	f.mu.Lock()
	known := f.known
	f.mu.Unlock()
	switch {
	case known == nil:
		return Place{}, failure.Classify(fmt.Errorf("asking where keys of %s are: %w", f.endpoint, failure.ErrBusy))
	case known.err != nil:
		return Place{}, known.err
	case known.owners == nil:
		return Place{Owner: known.masters[0]}, nil
	}
	slot := SlotOf(key)
	owner := known.owners[slot]
	if owner == 0 {
		return Place{}, slotUncovered(slot)
	}
	at := Place{Owner: known.masters[owner-1], Importing: known.importing[slot]}
	f.used.note(at.Owner.Address, time.Now())
	return at, nil
}

func (f *follower) version() uint64 { return f.versions.Load() }

// refresh asks all servers, and returns when one has answered.
func (f *follower) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	began := time.Now()
	f.hurry()
	for {
		f.mu.Lock()
		heard, asked := f.heard, f.asked
		f.mu.Unlock()
		if asked.After(began) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-heard:
		}
	}
}

// hurry has all servers be asked now.
func (f *follower) hurry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pollers {
		set(p.hurry)
	}
}

// severity orders the reasons for which servers do not answer: what only a person can mend comes first.
var severity = []failure.Reason{
	failure.ReasonWrongMode, failure.ReasonMasterNotFound, failure.ReasonDialDenied, failure.ReasonAuthFailed, failure.ReasonPermissionDenied,
	failure.ReasonTLSFailed, failure.ReasonSecretNotFound, failure.ReasonSecretInvalid, failure.ReasonSecretForbidden,
}

// worst returns the error of the answers that tells most; nil if there is none.
func worst(answers []answer) *failure.Error {
	var found *failure.Error
	rank := func(err *failure.Error) int {
		if at := slices.Index(severity, err.Reason); at >= 0 {
			return at
		}
		return len(severity)
	}
	for _, each := range answers {
		if each.err != nil && !each.err.Busy() && (found == nil || rank(each.err) < rank(found)) {
			found = each.err
		}
	}
	return found
}
