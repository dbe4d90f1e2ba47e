// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/tls"
	"fmt"
	"io"
	"strings"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// maxPasswordBytes bounds a password, of which its users keep many spellings. Tokens of cloud
// providers have up to a few KiB.
const maxPasswordBytes = 4 << 10

// Access is what it takes to use an endpoint. It does not change: other values make another one. The
// zero value is for a server that asks for nothing.
type Access struct {
	values
	// tls is nil for connections without TLS.
	tls *tls.Config
}

// values are what the Secrets of an endpoint hold. What it does not name is empty.
type values struct{ password, ca, certificate, privateKey string }

// newAccess makes the access of an endpoint from values. The error is an [*failure.Error].
func newAccess(e Endpoint, found values) (*Access, error) {
	if e.Password != (SecretKey{}) {
		found.password = withoutNewline(found.password)
		if found.password == "" {
			return nil, invalid(e.Password, "is empty. Store the password there.")
		}
		if len(found.password) > maxPasswordBytes {
			return nil, invalid(e.Password, "is larger than 4 KiB. Store the password there.")
		}
		// A server that is no Redis might take a line of it for a command.
		if strings.ContainsAny(found.password, "\r\n") {
			return nil, invalid(e.Password, "has several lines. Store only the password there.")
		}
	}
	config, err := newTLSConfig(e, found)
	if err != nil {
		return nil, err
	}
	return &Access{values: found, tls: config}, nil
}

// withoutNewline cuts one line end off. Files mostly have one that belongs to no password, and
// kubectl create secret --from-file keeps it.
func withoutNewline(password string) string {
	return strings.TrimSuffix(strings.TrimSuffix(password, "\n"), "\r")
}

// Format hides what the access holds from whoever prints it.
func (Access) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "an access") }

// Password is empty if there is none.
func (a *Access) Password() string { return a.password }

// Secured reports whether connections use TLS.
func (a *Access) Secured() bool { return a.tls != nil }

// Same reports whether two accesses to one endpoint are of the same values. Nil is the same as nil
// only.
func (a *Access) Same(as *Access) bool {
	if a == nil || as == nil {
		return a == as
	}
	return a.values == as.values
}

// invalid says what is wrong with a value, and nothing of what it holds.
func invalid(named SecretKey, wrong string) error {
	return &failure.Error{
		Reason:  failure.ReasonSecretInvalid,
		Message: fmt.Sprintf("The value of the key %q of the Secret %q %s", named.Key, named.Name, wrong),
		Err:     fmt.Errorf("key %q of Secret %q cannot be used", named.Key, named.Name),
	}
}
