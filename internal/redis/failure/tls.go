// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
)

// classifyTLS classifies the errors of TLS handshakes.
func classifyTLS(err error) (c class, ok bool) {
	handshake, ok := errors.AsType[*HandshakeError](err)
	if !ok {
		return class{}, false
	}
	for _, message := range []string{alertMessage(handshake.Err), certificateMessage(handshake.Err)} {
		if message != "" {
			return class{ReasonTLSFailed, message}, true
		}
	}
	return otherHandshake(handshake.Err), true
}

// certificateMessage returns the message for a server certificate that was not accepted, or "" for other errors.
func certificateMessage(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "The server's certificate is from an authority that is not trusted. Store the certificate of this authority in a Secret, and name " +
			"the Secret in spec.redis.tls.caSecretRef. Without a caSecretRef, only public authorities are trusted."
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "The server's certificate is for another name. Use an address that is one of its subject alternative names, or set " +
			"spec.redis.tls.serverName to one of them. The common name does not count."
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "The server's certificate has expired or is not valid yet. Renew it, and check the clocks of the server and of the operator."
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "The server's certificate is not valid. See the operator's log for the cause."
	}
	return ""
}

// otherHandshake classifies the remaining errors of handshakes. A server that closes the connection without an alert
// may do so because of TLS, or because it is starting or stopping. So that is Unreachable, which a retry may solve.
func otherHandshake(err error) class {
	_, ours := alertOf(err, localAlert)
	switch _, plain := errors.AsType[tls.RecordHeaderError](err); {
	case plain:
		return class{ReasonTLSFailed, "The server answers without TLS. Use its TLS port, or set spec.redis.tls to {mode: Disabled}."}
	case IsTimeout(err):
		return class{
			ReasonUnreachable,
			"The TLS handshake did not finish in time. Check that the port is the TLS port, or set spec.redis.tls to {mode: Disabled}: a Redis " +
				"without TLS does not answer a handshake. If it is the TLS port, check the network and the load of the server.",
		}
	case isBroken(err) && !ours:
		return class{
			ReasonUnreachable,
			"The connection broke during the TLS handshake. Check that the server runs and that the port is the TLS port. " +
				"See also the server's log.",
		}
	}
	return class{ReasonTLSFailed, "The TLS handshake failed. The server must support TLS 1.2 or newer. See the operator's log for the cause."}
}

// alerts has the messages for the TLS alerts that a server may send, by their codes in RFC 8446.
var alerts = []struct {
	codes   []tls.AlertError
	message string
}{
	{
		[]tls.AlertError{116}, // certificate_required
		"The server requires a client certificate. Name one in spec.redis.tls.certSecretRef and keySecretRef.",
	},
	{
		[]tls.AlertError{42, 43, 44, 45, 46, 48, 49}, // bad_certificate to unknown_ca, access_denied
		"The server rejected the operator's certificate, or requires one. Check that spec.redis.tls.certSecretRef names a certificate that is " +
			"valid and from an authority that the server trusts.",
	},
	{
		[]tls.AlertError{40, 70, 71}, // handshake_failure, protocol_version, insufficient_security
		"The server and the operator found no common TLS version or cipher. The server must support TLS 1.2 or newer. If it requires " +
			"a client certificate, name one in spec.redis.tls.certSecretRef and keySecretRef.",
	},
	{
		[]tls.AlertError{112}, // unrecognized_name
		"The server has no certificate for the requested name. Set spec.redis.tls.serverName to the name of its certificate.",
	},
}

// alertMessage returns the message for an alert of the server, or "" if err is not one.
func alertMessage(err error) string {
	received, ok := alertOf(err, remoteAlert)
	if !ok {
		return ""
	}
	// The type of the error is not exported, but its text is that of [tls.AlertError].
	isReceived := func(code tls.AlertError) bool { return code.Error() == received }
	for _, each := range alerts {
		if slices.ContainsFunc(each.codes, isReceived) {
			return each.message
		}
	}
	return "The server ended the TLS connection with an alert. See the operator's log for the alert, and the server's log for the cause."
}

// The operations in errors of package crypto/tls: for an alert that was received, and for one that was sent.
const (
	remoteAlert = "remote error"
	localAlert  = "local error"
)

// alertOf returns the text of the alert in err, if err is one and was received or sent, as operation says.
func alertOf(err error, operation string) (text string, ok bool) {
	failed, ok := errors.AsType[*net.OpError](err)
	if !ok || failed.Op != operation {
		return "", false
	}
	return failed.Err.Error(), true
}

// HandshakeError is the error of a failed TLS handshake.
type HandshakeError struct{ Err error }

// BeforeFirstReply returns a [*HandshakeError] for an alert that a server sent before its first reply: in TLS 1.3 the
// handshake ends for the client before the server has verified the client certificate. Other errors stay as they are.
func BeforeFirstReply(err error) error {
	if _, alert := alertOf(err, remoteAlert); alert {
		return &HandshakeError{Err: err}
	}
	return err
}

// Error returns the text of the cause, for logs.
func (e *HandshakeError) Error() string { return "TLS handshake: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }
