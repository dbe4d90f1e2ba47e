// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// failed handles the failure of a call that started at began, and returns the error for the caller.
func (s *server) failed(database int, client *redis.Client, err error, began time.Time) *failure.Error {
	cause := s.passwords.Error(failure.Classify(err))
	if s.endpoint.Role == auth.RoleAny {
		cause = failure.InStandalone(cause)
	}
	return s.classifyFailure(database, client, cause, began)
}

// classifyFailure returns what the error of a call means, and marks the server down if it means that.
func (s *server) classifyFailure(database int, client *redis.Client, cause *failure.Error, began time.Time) *failure.Error {
	if cause.Busy() || !marksDown(cause) {
		return cause
	}
	s.mu.Lock()
	inUse, down := s.inUse, s.down
	current := inUse.serve(database, client)
	s.mu.Unlock()
	switch excused := s.excused(cause, began) || s.waited(cause, began); {
	case current && !excused:
		s.markDown(inUse.credentials, cause)
		return cause
	case down != nil && !excused: // Another call marked the server down, which closed the client.
		return down
	default: // Or the client was closed because the address or the credentials have changed.
		return failure.Classify(fmt.Errorf("calling %s: %w: %w", s.endpoint, failure.ErrBusy, cause.Err))
	}
}

// marksDown reports whether an error means that the server is down. A reply that is too large does not: it depends on
// the key, and a user who can write to one key must not be able to cut all others off from the server. A server that is
// not the master answers, and may be the master again at any time.
func marksDown(cause *failure.Error) bool {
	if errors.Is(cause.Err, resp.ErrTooLarge) || errors.Is(cause.Err, failure.ErrNotMaster) {
		return false
	}
	return !failure.IsReply(cause.Err) || cause.Reason == failure.ReasonAuthFailed
}

// traffic counts the late calls of one server and records what it answers. It distinguishes a slow server from one that
// is down.
type traffic struct {
	late   int       // late calls
	worked time.Time // when the server last answered a call
	// shaking is how many connections the server has accepted that are in the handshake, and met is when a handshake last
	// succeeded.
	shaking int
	met     time.Time
}

// clock calls count with 1 if done is not called within lateAfter, and then with -1 when done is called. The two calls
// may come in either order.
func clock(lateAfter time.Duration, count func(more int)) (done func()) {
	timer := time.AfterFunc(lateAfter, func() { count(1) })
	return func() {
		if !timer.Stop() {
			count(-1)
		}
	}
}

// excused reports whether a failure does not mean that the server is down. That is so if a call timed out while the
// server has answered another call since began, or if the server has too many clients while a connection still works.
func (s *server) excused(cause *failure.Error, began time.Time) (excused bool) {
	final, said := errors.AsType[*resp.FinalError](cause)
	if said && failure.TooManyClients(final.Reply) && s.permits.serving() {
		return true
	}
	s.count(func(t *traffic) { excused = failure.IsTimeout(cause) && t.worked.After(began) })
	return excused
}

// waited reports whether a call has failed because its time was over while it waited for a connection to a server that
// may be far away: a handshake is under way, or has succeeded since the call began. If the server does not answer, the
// handshake fails. The time of a call ends with its context, and that of an open connection with an error of the
// connection.
func (s *server) waited(err error, began time.Time) (waited bool) {
	if !errors.Is(err, context.DeadlineExceeded) || s.permits.stalledSince(began) {
		return false
	}
	s.count(func(t *traffic) { waited = t.shaking > 0 || t.met.After(began) })
	return waited
}
