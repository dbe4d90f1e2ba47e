// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"errors"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// reply is an error reply of a server that held a password.
type reply string

// Error returns the words of the server, without the password.
func (r reply) Error() string { return string(r) }

// RedisError makes it an error reply for the client library.
func (reply) RedisError() { /* a mark */ }

// redactedError is an error whose text held a password, or was too long. The causes that hold it
// too are gone.
type redactedError struct {
	text string
	// is holds those of its causes that others look for, none of which holds anything.
	is []error
}

// Error returns the text, without the password.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the causes.
func (e *redactedError) Unwrap() []error { return e.is }

// withoutPasswords returns an error without the passwords, cut off if it is long. It keeps its class.
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
