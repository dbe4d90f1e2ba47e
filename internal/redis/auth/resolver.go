// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// maxValueBytes is the maximum size of one value of a Secret, because each endpoint keeps its values in memory. The
	// largest value that makes sense, all CA certificates of a system, is smaller.
	maxValueBytes = 256 << 10
	// readsAtOnce is how many endpoints may read their Secrets at the same time. During a read the whole Secret is in
	// memory.
	readsAtOnce = 16
)

// Secrets reads Secrets. Implementations must be safe for concurrent use.
type Secrets interface {
	// Read returns the data of a Secret. The error is a [*failure.Error] if the Secret does not exist or may not be
	// read. Any other error means that the API server gave no such answer.
	Read(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Resolver reads the credentials of endpoints. It is safe for concurrent use.
type Resolver struct {
	secrets       Secrets
	allowInsecure bool
	// reading has one element for each endpoint whose Secrets are read now.
	reading chan struct{}
}

// NewResolver returns a Resolver. If secrets is nil, no Secret is found. Endpoints may skip the verification of the
// server only if allowInsecure is true.
func NewResolver(secrets Secrets, allowInsecure bool) *Resolver {
	return &Resolver{secrets: secrets, allowInsecure: allowInsecure, reading: make(chan struct{}, readsAtOnce)}
}

// Load reads the Secrets that an endpoint names and returns its credentials. The message of the error shows the user
// what to correct. [Revoked] reports what the error means for credentials that were loaded earlier.
func (r *Resolver) Load(ctx context.Context, e Endpoint) (*Credentials, *failure.Error) {
	loaded, err := r.load(ctx, e)
	if err == nil {
		return loaded, nil
	}
	if classified, ok := errors.AsType[*failure.Error](err); ok {
		return nil, classified
	}
	return nil, &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "The operator could not read the Secret from the API server. It tries again; see its log for the cause.",
		Err:     err,
	}
}

// Revoked reports whether an error of [Resolver.Load] means that credentials which were loaded earlier must not be
// used any longer, because the Secret was deleted or is invalid. Other errors do not tell what the Secrets contain.
func Revoked(cause *failure.Error) bool {
	return cause.Reason != failure.ReasonUnreachable && cause.Reason != failure.ReasonSecretForbidden
}

// load is Load, but its errors are not classified yet.
func (r *Resolver) load(ctx context.Context, e Endpoint) (*Credentials, error) {
	if e.TLS.SkipVerify && !r.allowInsecure {
		return nil, &failure.Error{
			Reason: failure.ReasonTLSFailed,
			Message: "The operator does not connect without verifying the server's certificate. Set spec.redis.tls.caSecretRef instead of " +
				"insecureSkipVerify, or ask an administrator to start the operator with --allow-insecure-redis-tls.",
			Err: errors.New("TLS verification is switched off"),
		}
	}
	if !e.NeedsSecrets() {
		return newCredentials(e, values{})
	}
	select {
	case r.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", failure.ErrBusy, context.Cause(ctx))
	}
	defer func() { <-r.reading }()
	found, err := r.read(ctx, e)
	if err != nil {
		return nil, err
	}
	return newCredentials(e, found)
}

// read reads the values that an endpoint names.
func (r *Resolver) read(ctx context.Context, e Endpoint) (values, error) {
	reader := secretReader{Secrets: r.secrets, namespace: e.Namespace, read: map[string]map[string][]byte{}}
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

// secretReader reads each Secret at most once.
type secretReader struct {
	Secrets
	namespace string
	read      map[string]map[string][]byte
}

func (r secretReader) value(ctx context.Context, named SecretKey) (string, error) {
	data, ok := r.read[named.Name]
	if !ok {
		if r.Secrets == nil {
			return "", missing(named, "the operator cannot read Secrets")
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
		return "", invalid(named, "is larger than 256 KiB. Check that spec.redis names the right key.")
	}
	return string(value), nil
}

func missing(named SecretKey, cause string) error {
	return &failure.Error{
		Reason:  failure.ReasonSecretNotFound,
		Message: fmt.Sprintf("The Secret %q has no key %q. Add the key, or name another one in spec.redis.", named.Name, named.Key),
		Err:     fmt.Errorf("key %q of Secret %q: %s", named.Key, named.Name, cause),
	}
}
