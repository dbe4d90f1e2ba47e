// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"crypto/tls"
	"errors"
	"strconv"
	"strings"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// Redacted returns the error with what the server said replaced by what show returns for it. A server says something in
// an error reply and in its certificate. Errors of the client library may quote a server, too, but only in part, so
// nothing of that stays. All other errors stay as they are. It returns nil for nil.
func (e *Error) Redacted(show func(said string) string) *Error {
	if e == nil {
		return nil
	}
	if cause := redacted(e.Err, show); cause != nil {
		return &Error{Reason: e.Reason, Message: e.Message, Err: cause}
	}
	return e
}

// redacted returns the error to show instead of err; nil if err can be shown.
func redacted(err error, show func(said string) string) error {
	if final, ok := errors.AsType[*resp.FinalError](err); ok {
		if shown := show(final.Reply); shown != final.Reply {
			return final.Showing(shown)
		}
		return nil
	}
	if said := errorReply(err); said != "" {
		return redactedReply(err, said, show(said))
	}
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if shown := show(invalid.Error()); shown != invalid.Error() {
			return &HandshakeError{Err: errors.New(shown)}
		}
		return nil
	}
	return withoutQuote(err)
}

// hiddenError is an error reply that is shown differently from what the server said.
type hiddenError struct {
	// said is what the server said, which decides what the reply means. It must not be shown.
	said  string
	shown string
}

// Error returns what is shown of the reply.
func (r *hiddenError) Error() string { return r.shown }

// RedisError marks it as an error reply for the client library.
func (*hiddenError) RedisError() { /* a mark */ }

func redactedReply(err error, said, shown string) error {
	if _, already := errors.AsType[*hiddenError](err); already || shown == said {
		return nil
	}
	return &hiddenError{said: strings.Clone(said[:min(len(said), MaxLogged)]), shown: shown}
}

// withoutQuote returns an error of the client library without what it quotes; nil if err is none, or quotes nothing.
func withoutQuote(err error) error {
	text := err.Error()
	if _, ok := errors.AsType[*strconv.NumError](err); !ok && !strings.Contains(text, "redis: ") {
		return nil
	}
	own, _, quotes := strings.Cut(text, `"`)
	if !quotes {
		return nil
	}
	return errors.New(own + "…")
}
