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

// Credentials are what the operator signs in to a server with, and knows the server by. They never change: other values
// make other credentials. The zero value is for a server that asks for nothing.
type Credentials struct {
	values
	// tls is nil for connections without TLS.
	tls *tls.Config
}

// values are what the Secrets of an endpoint hold. What it does not name is empty.
type values struct{ password, ca, certificate, privateKey string }

// newCredentials makes the credentials for an endpoint from values. The error is a [*failure.Error].
func newCredentials(e Endpoint, found values) (*Credentials, error) {
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
	return &Credentials{values: found, tls: config}, nil
}

// withoutNewline cuts one line end off. Files mostly have one that belongs to no password, and
// kubectl create secret --from-file keeps it.
func withoutNewline(password string) string {
	return strings.TrimSuffix(strings.TrimSuffix(password, "\n"), "\r")
}

// Format keeps the values out of everything that is printed.
func (Credentials) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "credentials") }

// Password is empty if there is none.
func (c *Credentials) Password() string { return c.password }

// Secured reports whether connections use TLS.
func (c *Credentials) Secured() bool { return c.tls != nil }

// Same reports whether two credentials for one endpoint hold the same values. Nil is the same as nil only.
func (c *Credentials) Same(as *Credentials) bool {
	if c == nil || as == nil {
		return c == as
	}
	return c.values == as.values
}

// invalid says what is wrong with a value, and nothing of what it holds.
func invalid(named SecretKey, wrong string) error {
	return &failure.Error{
		Reason:  failure.ReasonSecretInvalid,
		Message: fmt.Sprintf("The value of the key %q of the Secret %q %s", named.Key, named.Name, wrong),
		Err:     fmt.Errorf("key %q of Secret %q cannot be used", named.Key, named.Name),
	}
}
