// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tracking

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Timing has the intervals of a tracker, which tests shorten.
type Timing struct {
	// PingAfter is the time without a message before a PING. If there is no reply within AnswerWithin, the connection is
	// closed.
	PingAfter, AnswerWithin time.Duration
	// ForbiddenRetry is the wait before a server that refuses tracking is tried again, or a key that the user may not
	// read or that has another type. RefusedRetry is the wait before a read that was rejected for another reason is
	// repeated.
	ForbiddenRetry, RefusedRetry time.Duration
	// The wait between two sessions doubles after each one that is shorter than ShortSession, up to LongestRest. A session
	// that has ended leaves its ID in the memory of the server, under each key that it has read and that has not changed
	// since.
	ShortSession, LongestRest time.Duration
}

// DefaultTiming returns the intervals of the operator. PingAfter is below the setting timeout of Redis, after which it
// closes a connection that sends nothing, unless that is shorter than three seconds.
func DefaultTiming() Timing {
	return Timing{
		PingAfter:      2 * time.Second,
		AnswerWithin:   10 * time.Second,
		ForbiddenRetry: failure.RejectedRetry,
		RefusedRetry:   time.Second,
		ShortSession:   time.Minute,
		LongestRest:    10 * time.Minute,
	}
}

// Recorder receives what happens, for metrics. Its methods must not block.
type Recorder interface {
	// Invalidated returns a function to call for each message of a server about changed keys that it tracks.
	Invalidated(endpoint string) (count func())
	// Tracked is called when the tracking of keys in a database begins or ends, and with false before the first attempt.
	Tracked(endpoint string, database int, tracked bool)
	// Ended is called when a session, or an attempt to begin one, has ended.
	Ended(endpoint, reason string)
}

// Options configure a [Tracker].
type Options struct {
	// Conn is the connection to the database with the keys.
	Conn *connection.Conn
	// Name and Database are how Recorder names the server and the database.
	Name     string
	Database int
	// Mark is called for each ID whose key may have changed. It must not block.
	Mark func(id ID, cause coalesce.Cause)
	// Budgets has how many events each namespace may take.
	Budgets  *budget.Namespaces
	Recorder Recorder
	Timing   Timing
	Log      logr.Logger
}

// Tracker keeps keys of one database tracked: it runs one session after the other. Its methods are safe for concurrent
// use, and none except [Tracker.Run] blocks.
type Tracker struct {
	conn     *connection.Conn
	keys     *keySet
	strays   *rate.Limiter // messages that nobody asked for
	name     string
	database int
	recorder Recorder
	// invalidated counts a message about changed keys, from when the tracker runs.
	invalidated func()
	timing      Timing
	log         logr.Logger
	// proven means that an invalidation has come in this session.
	proven atomic.Bool
}

// New returns a Tracker without keys.
func New(options Options) *Tracker {
	return &Tracker{
		conn: options.Conn, keys: newKeySet(options.Mark, options.Budgets), strays: budget.NewStrays(),
		name: options.Name, database: options.Database, recorder: options.Recorder,
		timing: options.Timing, log: options.Log,
	}
}

// Add makes id watch the key. It is marked as soon as the key is armed, and whenever it may have changed after that. idle
// is as in [Tracker.SetIdle].
func (t *Tracker) Add(key Key, id ID, idle bool) {
	if t.keys.add(key, id, idle) {
		t.keys.mark(id, coalesce.Confirmed)
	}
}

// Remove ends the watching that Add began.
func (t *Tracker) Remove(key Key, id ID) { t.keys.remove(key, id) }

// SetIdle says whether id can create nothing now. A key that is watched only by such ids is read once a second at most.
func (t *Tracker) SetIdle(key Key, id ID, idle bool) { t.keys.setIdle(key, id, idle) }

// State is what is known about a key.
type State struct {
	// Tracked means that the key was armed in this session, and that it is armed or about to be armed again.
	Tracked bool
	// Armed says since when the server must tell of the next change, for comparing depths.
	Armed verify.Subscription
}

// State returns what is known about a key.
func (t *Tracker) State(key Key) State { return t.keys.stateOf(key) }

// Proven reports whether an invalidation has come in this session. Until then it is not known whether the server sends
// any.
func (t *Tracker) Proven() bool { return t.proven.Load() }

// Run runs one session after the other until ctx is done. While the server is down it waits for the prober of the pool.
func (t *Tracker) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		for t.conn.WaitRestored(ctx) == nil {
			t.keys.wakeAll()
		}
	})
	defer t.keys.due.Stop()
	t.recorder.Tracked(t.name, t.database, false)
	t.invalidated = t.recorder.Invalidated(t.name)
	backoff := connection.Backoff{Longest: t.timing.LongestRest}
	var lastEnd string
	for t.conn.WaitUp(ctx) == nil {
		backoff.Begin()
		began := time.Now()
		opened, err := t.session(ctx)
		if ctx.Err() != nil {
			return
		}
		end := failure.Classify(err)
		t.recorder.Ended(t.name, string(end.Reason))
		if opened || end.Message != lastEnd {
			t.log.Info("Not tracking keys", "cause", err.Error())
			lastEnd = end.Message
		}
		if time.Since(began) >= t.timing.ShortSession {
			backoff.Reset()
		}
		delay := backoff.Delay()
		if errors.Is(err, connection.ErrNotTracking) {
			delay = t.timing.ForbiddenRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// session runs a session until its end. If its credentials change, it moves to a new connection and goes on. It reports
// whether a session began.
func (t *Tracker) session(ctx context.Context) (opened bool, err error) {
	conn, err := t.conn.OpenTracking(ctx)
	if err != nil {
		return false, err
	}
	t.recorder.Tracked(t.name, t.database, true)
	t.log.Info("Tracking keys")
	for conn != nil {
		t.keys.begin()
		conn, err = connection.UseUntilReplaced(ctx, conn, t.conn.TrackingSuccessor, newSession(t, conn).run)
		t.keys.end(conn != nil)
	}
	t.proven.Store(false)
	t.recorder.Tracked(t.name, t.database, false)
	return true, err
}

// prove records that an invalidation of an armed key has come.
func (t *Tracker) prove() {
	if !t.proven.Swap(true) {
		t.keys.wakeAll()
	}
}
