// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// failed notes that a call that began then failed, and returns the error for the caller.
func (s *server) failed(database int, client *redis.Client, err error, began time.Time) *failure.Error {
	return s.passwords.Error(s.judge(database, client, err, began))
}

// judge notes what the failure of a call says about the endpoint.
func (s *server) judge(database int, client *redis.Client, err error, began time.Time) *failure.Error {
	cause := failure.Classify(err)
	if errors.Is(err, failure.ErrBusy) || !endsUse(cause) {
		return cause
	}
	if s.traffic.excused(cause, began) {
		return failure.Classify(fmt.Errorf("calling %s: %w: %w", s.endpoint, failure.ErrBusy, cause.Err))
	}
	inUse, down := s.health.look()
	switch {
	case inUse.has(database, client) || client == nil && inUse.credentials == nil:
		s.markDown(inUse.credentials, cause)
		return cause
	case down != nil: // The client was closed when another call failed.
		return down
	default: // It was closed because the name points elsewhere, or the credentials have changed.
		return failure.Classify(fmt.Errorf("calling %s: %w: %w", s.endpoint, failure.ErrBusy, cause.Err))
	}
}

// endsUse reports whether an error means that trying again soon is of no use. A reply that is
// too large is about what was asked, and ends no more than its connection: whoever may write to
// one key must not be able to take the server from all others.
func endsUse(cause *failure.Error) bool {
	if errors.Is(cause.Err, resp.ErrTooLarge) {
		return false
	}
	return !failure.IsReply(cause.Err) || cause.Reason == failure.ReasonAuthFailed
}
