// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// maxPasswordBytes is the maximum size of a password. Package redact looks for it in what the server says.
// Tokens of cloud providers have a few KiB.
const maxPasswordBytes = 4 << 10

// Credentials are the password and the TLS configuration for the connections to one server. They are immutable. The
// zero value is for a server without password and TLS.
type Credentials struct {
	values
	// tls is nil for connections without TLS.
	tls *tls.Config
	// expires is when the first of the certificates in the Secrets expires; zero if there is none.
	expires time.Time
}

// values are the values of the Secrets that an endpoint names. A value that the endpoint does not name is empty.
type values struct{ password, ca, certificate, privateKey string }

// newCredentials checks the values and makes credentials from them. The error is a [*failure.Error].
func newCredentials(e Endpoint, found values) (*Credentials, error) {
	if e.Password != (SecretKey{}) {
		found.password = withoutNewline(found.password)
		if found.password == "" {
			return nil, invalid(e.Password, "is empty. Store the password there.")
		}
		if len(found.password) > maxPasswordBytes {
			return nil, invalid(e.Password, "is larger than 4 KiB. Store the password there.")
		}
		// The operator sends the password before it knows that the server is Redis. A server that reads commands line
		// by line would run the second line as a command.
		if strings.ContainsAny(found.password, "\r\n") {
			return nil, invalid(e.Password, "has several lines. Store only the password there.")
		}
	}
	config, err := newTLSConfig(e, found)
	if err != nil {
		return nil, err
	}
	return &Credentials{values: found, tls: config, expires: firstExpiry(found.ca, found.certificate)}, nil
}

// withoutNewline removes one line end. Most text files end with one, and kubectl create secret --from-file keeps it.
func withoutNewline(password string) string {
	return strings.TrimSuffix(strings.TrimSuffix(password, "\n"), "\r")
}

// Format prevents that fmt prints the values, whatever the verb.
func (Credentials) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "credentials") }

// Password returns the password. It is empty if the endpoint names none.
func (c *Credentials) Password() string { return c.password }

// Expires returns when the first of the certificates in the Secrets expires; zero if there is none.
func (c *Credentials) Expires() time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.expires
}

// Same reports whether two credentials for one endpoint have the same values. Nil equals only nil.
func (c *Credentials) Same(as *Credentials) bool {
	if c == nil || as == nil {
		return c == as
	}
	return c.values == as.values
}

// invalid returns an error for a value that cannot be used. Neither its message nor its cause contains the value.
func invalid(named SecretKey, wrong string) error {
	return &failure.Error{
		Reason:  failure.ReasonSecretInvalid,
		Message: fmt.Sprintf("The value of the key %q of the Secret %q %s", named.Key, named.Name, wrong),
		Err:     fmt.Errorf("key %q of Secret %q cannot be used", named.Key, named.Name),
	}
}
