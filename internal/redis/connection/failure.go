// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
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
	return s.classifyFailure(database, client, s.passwords.Error(failure.Classify(err)), began)
}

// classifyFailure returns what the error of a call means, and marks the server down if it means that.
func (s *server) classifyFailure(database int, client *redis.Client, cause *failure.Error, began time.Time) *failure.Error {
	if s.endpoint.Role == auth.RoleAny {
		cause = failure.InStandalone(cause)
	}
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
// the key, and a user who can write to one key must not be able to cut all others off from the server. A server that is not the
// master answers, and may be the master again at any time.
func marksDown(cause *failure.Error) bool {
	if errors.Is(cause.Err, resp.ErrTooLarge) || errors.Is(cause.Err, failure.ErrNotMaster) {
		return false
	}
	return !failure.IsReply(cause.Err) || cause.Reason == failure.ReasonAuthFailed
}
