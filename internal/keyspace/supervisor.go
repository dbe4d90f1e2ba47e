// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// errSucceeded ends a session whose connection has a successor.
var errSucceeded = errors.New("another connection takes over")

// supervisor keeps a session running on one endpoint.
type supervisor struct {
	conn     *connection.Conn
	endpoint auth.Endpoint
	set      *channelSet
	// evidence is of what the inspector is told and of the events that come. evidenceChanged is
	// set when it has.
	evidence        *verify.Evidence
	evidenceChanged coalesce.Signal
	inspector       *inspector
	recorder        Recorder
	timing          timing
	log             logr.Logger
	// due is set when a session has begun that the inspector knows nothing of, and when there is
	// a new one among the classes.
	due coalesce.Signal
	// users is how many ids watch the endpoint, and classes how many keys of each class they
	// watch. Both are guarded by the lock of the watcher.
	users   int
	classes map[verify.Class]int
}

// run has one session after the other until ctx is done. While the endpoint is down it
// waits for the prober of the pool.
func (s *supervisor) run(ctx context.Context) {
	var others sync.WaitGroup
	others.Go(func() { s.inspector.run(ctx, s.due) })
	others.Go(func() { s.wakeRestored(ctx) })
	defer others.Wait()
	s.recorder.Subscribed(s.endpoint.String(), false)

	var backoff connection.Backoff
	var lastEnd string
	for {
		if err := s.conn.WaitUp(ctx); err != nil {
			return
		}
		backoff.Begin()
		confirmed, err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if confirmed {
			backoff.Reset()
		}
		end := failure.Classify(err)
		s.recorder.Ended(s.endpoint.String(), string(end.Reason))
		if confirmed || end.Message != lastEnd {
			s.log.Info("Not subscribed to keyspace notifications", "cause", err.Error())
			lastEnd = end.Message
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Delay()):
		}
	}
}

// wakeRestored wakes those who listen whenever the server answers again, until ctx is done. Their
// reads have failed meanwhile, and if the session has outlived that, it confirms nothing
// after which they would read.
func (s *supervisor) wakeRestored(ctx context.Context) {
	for s.conn.WaitRestored(ctx) == nil {
		s.set.wakeAll()
	}
}

// session runs a session to its end, which is not yet that of its connection where another one
// takes over. It reports whether the server confirmed anything.
func (s *supervisor) session(ctx context.Context) (confirmed bool, err error) {
	pubSub, err := s.conn.OpenPubSub(ctx)
	if err != nil {
		return false, err
	}
	for pubSub != nil {
		current := &session{supervisor: s, pubSub: pubSub, resumes: confirmed}
		pubSub, err = s.connected(ctx, current)
		confirmed = confirmed || current.confirmed
	}
	if confirmed {
		s.recorder.Subscribed(s.endpoint.String(), false)
	}
	return confirmed, err
}

// connected runs a session on its connection. It returns the connection to go on with, if the credentials have changed. That
// one is open before the other is given up, and what is pushed in between is found after its confirmations.
func (s *supervisor) connected(ctx context.Context, current *session) (next *connection.PubSub, err error) {
	defer current.pubSub.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var successor sync.WaitGroup
	successor.Go(func() {
		if next, _ = s.conn.Successor(ctx, current.pubSub); next != nil {
			end(errSucceeded)
		}
	})
	err = current.run(ctx)
	end(nil)
	successor.Wait()
	if next != nil && !errors.Is(err, errSucceeded) { // It broke at the same moment.
		next.Close()
		next = nil
	}
	return next, err
}

// begin notes that the server has confirmed the first subscription of a session. If the session resumes one on the same
// server, the evidence still holds.
func (s *supervisor) begin(resumes bool) {
	if !resumes {
		s.evidence.Begin()
	}
	s.recorder.Subscribed(s.endpoint.String(), true)
	s.due.Set()
}

// event marks all whom an event concerns, and notes that events come.
func (s *supervisor) event(channel, name string) {
	m := meaningOf(name)
	if m.cause != coalesce.None {
		s.set.event(channel, m.cause)
	}
	s.recorder.Received(s.endpoint.String())
	if m.class != 0 && s.evidence.Heard(m.class) {
		s.evidenceChanged.Set()
	}
}
