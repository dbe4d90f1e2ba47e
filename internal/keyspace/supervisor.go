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

// supervisor keeps one endpoint subscribed: it runs one session after the other.
type supervisor struct {
	conn     *connection.Conn
	endpoint auth.Endpoint
	// name is the endpoint as metrics and logs name it.
	name string
	set  *channelSet
	// evidence has what the inspector has read and which events have come.
	evidence  *verify.Evidence
	inspector *inspector
	recorder  Recorder
	received  func() // counts a notification, from when the supervisor runs
	timing    timing
	log       logr.Logger
	// due is set when a session has begun and the inspector should read the setting, and when a key of a new class is
	// watched.
	due coalesce.Signal
	// users is how often a key of the endpoint is watched, and classes how many keys of each class are watched. The lock of
	// the watcher guards them.
	users   int
	classes map[verify.Class]int
}

func (s *supervisor) server() auth.Endpoint { return s.endpoint }

// run runs one session after the other until ctx is done. While the endpoint is down it waits for the prober of the
// pool.
func (s *supervisor) run(ctx context.Context) {
	var others sync.WaitGroup
	others.Go(func() { s.inspector.run(ctx, s.due) })
	others.Go(func() { s.wakeRestored(ctx) })
	defer others.Wait()
	s.recorder.Subscribed(s.name, false)
	s.received = s.recorder.Received(s.name)

	var backoff connection.Backoff
	var lastEnd string
	for {
		if s.conn.WaitUp(ctx) != nil {
			return
		}
		backoff.Begin()
		confirmed, err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if confirmed && !errors.Is(err, errFlooded) {
			backoff.Reset()
		}
		end := failure.Classify(err)
		s.recorder.Ended(s.name, string(end.Reason))
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

// wakeRestored wakes all ids with a subscription whenever the server answers again, until ctx is done. Their reads may
// have failed during the outage, and if the session has survived it, no confirmation wakes them.
func (s *supervisor) wakeRestored(ctx context.Context) {
	for s.conn.WaitRestored(ctx) == nil {
		s.set.wakeAll()
	}
}

// session runs a session until its end. If its credentials change, the session moves to a new connection and goes on;
// the confirmations there cause a read that finds everything pushed in between. It reports whether the server has
// confirmed a subscription.
func (s *supervisor) session(ctx context.Context) (confirmed bool, err error) {
	pubSub, err := s.conn.OpenPubSub(ctx)
	if err != nil {
		return false, err
	}
	for pubSub != nil {
		current := &session{supervisor: s, pubSub: pubSub, resumes: confirmed}
		pubSub, err = connection.UseUntilReplaced(ctx, pubSub, s.conn.Successor, current.run)
		confirmed = confirmed || current.confirmed
	}
	if confirmed {
		s.recorder.Subscribed(s.name, false)
	}
	return confirmed, err
}

// begin records the first confirmation of a session. If the session resumes one with the same server, its evidence
// stays valid.
func (s *supervisor) begin(resumes bool) {
	if !resumes {
		s.evidence.Begin()
	}
	s.recorder.Subscribed(s.name, true)
	s.log.Info("Subscribed to keyspace notifications")
	s.due.Set()
}

// event marks the ids that watch the key of an event, and records that an event of its class has come. The error means
// that the server sends too many events that nobody asked for.
func (s *supervisor) event(channel, name string) error {
	m := meaningOf(name)
	flooded := s.set.event(channel, m.cause)
	s.received()
	if m.class != 0 && s.evidence.Heard(m.class) {
		s.set.wakeAll()
	}
	if flooded {
		return errFlooded
	}
	return nil
}
