// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redisaccess"
	"miracle.dev/scaledjob-operator/internal/rediserror"
)

// Endpoint is the Redis server of a ScaledJob in a namespace, and the number of the database there. The error, an [*rediserror.Error], is for an
// address that is not of the form host:port.
func Endpoint(namespace string, spec *scaledjobv1.ScaledJobSpec) (endpoint redisaccess.Endpoint, database int, err error) {
	redis := spec.Redis
	if redis == nil {
		endpoint, err = parse(spec.RedisAddress)
		return endpoint, 0, err
	}
	address := ""
	if len(redis.Addresses) > 0 { // The CRD has it so.
		address = redis.Addresses[0]
	}
	if endpoint, err = parse(address); err != nil {
		return redisaccess.Endpoint{}, 0, err
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

func parse(address string) (redisaccess.Endpoint, error) {
	endpoint, err := redisaccess.ParseEndpoint(address)
	if err != nil {
		return redisaccess.Endpoint{}, &rediserror.Error{
			Reason:  rediserror.ReasonUnreachable,
			Message: "The address of the Redis server is not of the form host:port. Correct it.",
			Err:     err,
		}
	}
	return endpoint, nil
}

func encryption(tls *scaledjobv1.RedisTLS) redisaccess.TLS {
	return redisaccess.TLS{
		Enabled:     true,
		ServerName:  tls.ServerName,
		SkipVerify:  tls.InsecureSkipVerify,
		CA:          secretKey(tls.CASecretRef, scaledjobv1.DefaultCAKey),
		Certificate: secretKey(tls.CertSecretRef, scaledjobv1.DefaultCertificateKey),
		PrivateKey:  secretKey(tls.KeySecretRef, scaledjobv1.DefaultPrivateKeyKey),
	}
}

// secretKey is what a reference names, if there is one.
func secretKey(reference *scaledjobv1.SecretKeyReference, otherwise string) redisaccess.SecretKey {
	if reference == nil {
		return redisaccess.SecretKey{}
	}
	return redisaccess.SecretKey{Name: reference.Name, Key: cmp.Or(reference.Key, otherwise)}
}
