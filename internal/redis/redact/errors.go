// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"errors"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// reply is an error reply after its password was removed.
type reply string

// Error returns the text of the reply without the password.
func (r reply) Error() string { return string(r) }

// RedisError marks it as an error reply for the client library.
func (reply) RedisError() { /* a mark */ }

// redactedError replaces an error whose text contained a password or was too long. It does not wrap the original
// causes, because their texts contain the password too.
type redactedError struct {
	text string
	// is has those of the original causes that callers test for with [errors.Is] and [errors.As]. None of them contains
	// server data.
	is []error
}

// Error returns the text without the password.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the causes that callers test for.
func (e *redactedError) Unwrap() []error { return e.is }

// withoutPasswords returns err, or a copy with the same reason and message whose text is shortened and contains no
// password.
func withoutPasswords(err *failure.Error, spelled []string) *failure.Error {
	if err == nil {
		return nil
	}
	text := err.Err.Error()
	clean := cutOut(failure.Shorten(text), spelled)
	if clean == text {
		return err
	}
	without := &redactedError{text: clean}
	if failure.IsReply(err.Err) {
		without.is = append(without.is, reply(clean))
	}
	for _, cause := range []error{failure.ErrBusy, failure.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err.Err, cause) {
			without.is = append(without.is, cause)
		}
	}
	return &failure.Error{Reason: err.Reason, Message: err.Message, Err: without}
}
