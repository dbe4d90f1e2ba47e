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
	// maxValueBytes bounds one value of a Secret. Each endpoint keeps its own, and the largest there
	// is, all certificates of a system, has less.
	maxValueBytes = 256 << 10
	// readsAtOnce is for how many endpoints Secrets are read at the same time. What a Secret holds
	// besides is in memory meanwhile.
	readsAtOnce = 16
)

// Secrets reads Secrets. Implementations must be safe for concurrent use.
type Secrets interface {
	// Read returns what a Secret holds now. The error is an [*failure.Error] with a reason of
	// its own if there is no such Secret or it may not be read, and any other if that is not known.
	Read(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Keyring finds what endpoints take. It is safe for concurrent use.
type Keyring struct {
	secrets       Secrets
	allowInsecure bool
	// reading is held while Secrets are read.
	reading chan struct{}
}

// NewKeyring makes a Keyring. Without secrets no Secret is found, and only if allowInsecure is set
// endpoints may do without the verification of the server.
func NewKeyring(secrets Secrets, allowInsecure bool) *Keyring {
	return &Keyring{secrets: secrets, allowInsecure: allowInsecure, reading: make(chan struct{}, readsAtOnce)}
}

// Load reads the Secrets that an endpoint names and makes its access. The error is nil, or tells
// whoever is to mend it what is wrong: see [Withdrawn] for what it says about an access from before.
func (k *Keyring) Load(ctx context.Context, e Endpoint) (*Access, *failure.Error) {
	loaded, err := k.load(ctx, e)
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

// Withdrawn reports whether an error of [Keyring.Load] says that an endpoint may not be used any
// more with what was loaded before, since somebody has taken that away. Any other error says that it
// is not known what the Secrets hold.
func Withdrawn(cause *failure.Error) bool {
	return cause.Reason != failure.ReasonUnreachable && cause.Reason != failure.ReasonSecretForbidden
}

// load is Load with errors as they come.
func (k *Keyring) load(ctx context.Context, e Endpoint) (*Access, error) {
	if e.TLS.SkipVerify && !k.allowInsecure {
		return nil, &failure.Error{
			Reason: failure.ReasonTLSFailed,
			Message: "The operator does not connect without verifying the server's certificate. Set spec.redis.tls.caSecretRef instead of " +
				"insecureSkipVerify, or ask an administrator to start the operator with --allow-insecure-redis-tls.",
			Err: errors.New("verification is switched off"),
		}
	}
	if !e.NeedsSecrets() {
		return newAccess(e, values{})
	}
	select {
	case k.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", failure.ErrBusy, context.Cause(ctx))
	}
	defer func() { <-k.reading }()
	found, err := k.read(ctx, e)
	if err != nil {
		return nil, err
	}
	return newAccess(e, found)
}

// read reads the values that an endpoint names.
func (k *Keyring) read(ctx context.Context, e Endpoint) (values, error) {
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
