// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// traffic counts the late calls of one server and records what it answers. It distinguishes a slow server from one that is
// down.
type traffic struct {
	late   int       // late calls
	worked time.Time // when the server last answered a call
	// shaking is how many connections the server has accepted that are in the handshake, and met is when a handshake last
	// succeeded.
	shaking int
	met     time.Time
}

// clock calls count with 1 if done is not called within lateAfter, and then with -1 when done is called. The two calls may
// come in either order.
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
	farewell, said := errors.AsType[*resp.FarewellError](cause)
	if said && failure.TooManyClients(farewell.Reply) && s.seats.serving() {
		return true
	}
	s.count(func(t *traffic) { excused = failure.IsTimeout(cause) && t.worked.After(began) })
	return excused
}

// waited reports whether a call has failed because its time was over while it waited for a connection to a server that may
// be far away: a handshake is under way, or has succeeded since the call began. If the server does not answer, the handshake
// fails. The time of a call ends with its context, and that of an open connection with an error of the connection.
func (s *server) waited(err error, began time.Time) (waited bool) {
	if !errors.Is(err, context.DeadlineExceeded) || s.seats.stalledSince(began) {
		return false
	}
	s.count(func(t *traffic) { waited = t.shaking > 0 || t.met.After(began) })
	return waited
}
