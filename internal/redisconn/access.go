// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"miracle.dev/scaledjob-operator/internal/rediserror"
)

const (
	// maxValueBytes bounds one value of a Secret. Each endpoint keeps its own, and the largest there
	// is, all certificates of a system, has less.
	maxValueBytes = 256 << 10
	// maxPasswordBytes bounds a password, of which each endpoint keeps many spellings. Tokens of
	// cloud providers have up to a few KiB.
	maxPasswordBytes = 4 << 10
)

// access is what it takes to use an endpoint: a password, how to know the server and how to be
// known by it. It does not change: other values make another one.
type access struct {
	values
	// tls is nil for connections without TLS.
	tls *tls.Config
}

// values are what the Secrets of an endpoint hold. What it does not name is empty.
type values struct{ password, ca, certificate, privateKey string }

// secretsAtOnce is for how many endpoints Secrets are read at the same time. What a Secret holds
// besides is in memory meanwhile.
const secretsAtOnce = 16

// keyring makes accesses.
type keyring struct {
	secrets       Secrets
	allowInsecure bool
	// reading is held while Secrets are read.
	reading chan struct{}
}

func newKeyring(options Options) keyring {
	return keyring{
		secrets: options.Secrets, allowInsecure: options.AllowInsecureTLS, reading: make(chan struct{}, secretsAtOnce),
	}
}

// load reads the Secrets that an endpoint names and makes its access. An error that is an
// [*rediserror.Error] is for a person to mend; any other one says that the values are not known.
func (k keyring) load(ctx context.Context, e Endpoint) (*access, error) {
	if e.TLS.SkipVerify && !k.allowInsecure {
		return nil, &rediserror.Error{
			Reason: rediserror.ReasonTLSFailed,
			Message: "The operator does not connect to servers that it cannot know. Remove insecureSkipVerify and give the CA, " +
				"or start the operator with --allow-insecure-redis-tls.",
			Err: errors.New("verification is switched off"),
		}
	}
	if !e.NeedsSecrets() {
		return newAccess(e, values{})
	}
	if err := enter(ctx, k.reading); err != nil {
		return nil, err
	}
	defer func() { <-k.reading }()
	found, err := k.read(ctx, e)
	if err != nil {
		return nil, err
	}
	return newAccess(e, found)
}

// read reads the values that an endpoint names.
func (k keyring) read(ctx context.Context, e Endpoint) (values, error) {
	reader := secretReader{Secrets: k.secrets, namespace: e.Namespace, read: map[string]map[string][]byte{}}
	var found values
	for _, each := range []struct {
		named SecretKey
		value *string
	}{
		{e.Password, &found.password},
		{e.TLS.CA, &found.ca},
		{e.TLS.Certificate, &found.certificate},
		{e.TLS.PrivateKey, &found.privateKey},
	} {
		if each.named == (SecretKey{}) {
			continue
		}
		value, err := reader.value(ctx, each.named)
		if err != nil {
			return values{}, err
		}
		*each.value = value
	}
	return found, nil
}

// newAccess makes the access of an endpoint from values. The error is an [*rediserror.Error].
func newAccess(e Endpoint, found values) (*access, error) {
	if e.Password != (SecretKey{}) {
		found.password = withoutNewline(found.password)
		if found.password == "" {
			return nil, invalid(e.Password, "is empty. Store the password there.")
		}
		if len(found.password) > maxPasswordBytes {
			return nil, invalid(e.Password, "is larger than 4 KiB. Store the password there.")
		}
	}
	config, err := newTLSConfig(e, found)
	if err != nil {
		return nil, err
	}
	return &access{values: found, tls: config}, nil
}

// withoutNewline cuts one line end off. Files mostly have one that belongs to no password, and
// kubectl create secret --from-file keeps it.
func withoutNewline(password string) string {
	return strings.TrimSuffix(strings.TrimSuffix(password, "\n"), "\r")
}

// secretReader reads each Secret once.
type secretReader struct {
	Secrets
	namespace string
	read      map[string]map[string][]byte
}

func (r secretReader) value(ctx context.Context, named SecretKey) (string, error) {
	data, ok := r.read[named.Name]
	if !ok {
		if r.Secrets == nil {
			return "", missing(named, "there is nothing to read Secrets with")
		}
		var err error
		if data, err = r.Read(ctx, r.namespace, named.Name); err != nil {
			return "", fmt.Errorf("reading Secret %s/%s: %w", r.namespace, named.Name, err)
		}
		r.read[named.Name] = data
	}
	value, ok := data[named.Key]
	switch {
	case !ok:
		return "", missing(named, "the Secret has no such key")
	case len(value) > maxValueBytes:
		return "", invalid(named, "is larger than 256 KiB. Store what spec.redis is meant to name.")
	}
	return string(value), nil
}

func missing(named SecretKey, cause string) error {
	return &rediserror.Error{
		Reason:  rediserror.ReasonSecretNotFound,
		Message: fmt.Sprintf("The Secret %q has no key %q. Add it, or correct the name in spec.redis.", named.Name, named.Key),
		Err:     fmt.Errorf("key %q of Secret %q: %s", named.Key, named.Name, cause),
	}
}

// invalid says what is wrong with a value, and nothing of what it holds.
func invalid(named SecretKey, wrong string) error {
	return &rediserror.Error{
		Reason:  rediserror.ReasonSecretInvalid,
		Message: fmt.Sprintf("The value of the key %q of the Secret %q %s", named.Key, named.Name, wrong),
		Err:     fmt.Errorf("key %q of Secret %q cannot be used", named.Key, named.Name),
	}
}

// notKnown is the error of an endpoint whose Secrets could not be read, and never were before.
func notKnown(err error) *rediserror.Error {
	if classified, ok := errors.AsType[*rediserror.Error](err); ok {
		return classified
	}
	return &rediserror.Error{
		Reason:  rediserror.ReasonUnreachable,
		Message: "The Secret could not be read from the API server. The operator tries again. See its log for the cause.",
		Err:     err,
	}
}
