// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure

// HandshakeError is what ended a TLS handshake.
type HandshakeError struct{ Err error }

// Error returns the cause, for logs.
func (e *HandshakeError) Error() string { return "TLS handshake: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }
