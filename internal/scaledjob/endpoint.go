// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"cmp"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// endpointOf returns the Redis server of a ScaledJob in a namespace, and the database number. It returns an
// [*failure.Error] if the address does not have the form host:port.
func endpointOf(namespace string, spec *scaledjobv1.ScaledJobSpec) (endpoint auth.Endpoint, database int, err error) {
	redis := spec.Redis
	if redis == nil {
		endpoint, err = parse(spec.RedisAddress)
		return endpoint, 0, err
	}
	address := ""
	if len(redis.Addresses) > 0 { // The CRD requires one, but objects stored under an older CRD may have none.
		address = redis.Addresses[0]
	}
	if endpoint, err = parse(address); err != nil {
		return auth.Endpoint{}, 0, err
	}
	if redis.Auth != nil {
		endpoint.Username = redis.Auth.Username
		endpoint.Password = secretKey(redis.Auth.PasswordSecretRef, scaledjobv1.DefaultPasswordKey)
	}
	if redis.TLS != nil {
		endpoint.TLS = encryption(redis.TLS)
	}
	if endpoint.NeedsSecrets() {
		endpoint.Namespace = namespace
	}
	return endpoint, int(redis.Database), nil
}

func parse(address string) (auth.Endpoint, error) {
	endpoint, err := auth.ParseEndpoint(address)
	if err != nil {
		return auth.Endpoint{}, &failure.Error{
			Reason:  failure.ReasonUnreachable,
			Message: "The address of the Redis server does not have the form host:port. Correct it.",
			Err:     err,
		}
	}
	return endpoint, nil
}

func encryption(tls *scaledjobv1.RedisTLS) auth.TLS {
	return auth.TLS{
		Enabled:     true,
		ServerName:  tls.ServerName,
		SkipVerify:  tls.InsecureSkipVerify,
		CA:          secretKey(tls.CASecretRef, scaledjobv1.DefaultCAKey),
		Certificate: secretKey(tls.CertSecretRef, scaledjobv1.DefaultCertificateKey),
		PrivateKey:  secretKey(tls.KeySecretRef, scaledjobv1.DefaultPrivateKeyKey),
	}
}

// secretKey converts a reference, which may be nil. defaultKey applies if the reference has no key.
func secretKey(reference *scaledjobv1.SecretKeyReference, defaultKey string) auth.SecretKey {
	if reference == nil {
		return auth.SecretKey{}
	}
	return auth.SecretKey{Name: reference.Name, Key: cmp.Or(reference.Key, defaultKey)}
}
