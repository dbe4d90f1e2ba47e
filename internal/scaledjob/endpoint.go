// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"cmp"
	"errors"
	"unique"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// endpointOf returns the Redis server or deployment of a ScaledJob in a namespace, and the database number. It returns
// an [*failure.Error] if an address does not have the form host:port, or if there are credentials and nothing says
// whether TLS protects them.
func endpointOf(namespace string, spec *scaledjobv1.ScaledJobSpec) (endpoint auth.Endpoint, database int, err error) {
	redis := spec.Redis
	if redis == nil {
		endpoint, err = parse(auth.ModeStandalone, []string{spec.RedisAddress})
		return endpoint, 0, err
	}
	if endpoint, err = parse(modes[redis.Mode], redis.Addresses); err != nil {
		return auth.Endpoint{}, 0, err
	}
	endpoint.Username, endpoint.Password, endpoint.TLS, err = access("spec.redis", redis.Auth, redis.TLS)
	if err == nil && endpoint.Mode == auth.ModeSentinel {
		var with auth.Sentinels
		with, err = sentinelsOf(redis.Sentinel)
		endpoint.Sentinels = unique.Make(with)
	}
	if err != nil {
		return auth.Endpoint{}, 0, err
	}
	if endpoint.NeedsSecrets() {
		endpoint.Namespace = namespace
	}
	return endpoint, int(redis.Database), nil
}

// modes maps the modes of the API. The mode of an object stored without one is Standalone.
var modes = map[scaledjobv1.RedisMode]auth.Mode{
	scaledjobv1.RedisSentinel: auth.ModeSentinel, scaledjobv1.RedisCluster: auth.ModeCluster,
}

// parse parses addresses. The CRD requires one, but objects stored under an older CRD may have none.
func parse(mode auth.Mode, addresses []string) (endpoint auth.Endpoint, err error) {
	switch {
	case len(addresses) == 0:
		err = errors.New("there is no address")
	case mode == auth.ModeStandalone:
		endpoint, err = auth.ParseEndpoint(addresses[0])
	default:
		endpoint, err = auth.ParseDeployment(mode, addresses)
	}
	if err != nil {
		return auth.Endpoint{}, &failure.Error{
			Reason:  failure.ReasonUnreachable,
			Message: "An address of the Redis server does not have the form host:port. Correct it.",
			Err:     err,
		}
	}
	return endpoint, nil
}

// sentinelsOf converts the settings for sentinels. The CRD requires them, but they may be nil in an object that was
// stored under another one.
func sentinelsOf(given *scaledjobv1.RedisSentinelAccess) (with auth.Sentinels, err error) {
	if given == nil {
		return auth.Sentinels{}, nil
	}
	with.MasterName = given.MasterName
	with.Username, with.Password, with.TLS, err = access("spec.redis.sentinel", given.Auth, given.TLS)
	return with, err
}

// access converts the credentials and the TLS settings of a field, each of which may be nil. The CRD requires TLS
// settings with credentials, but objects stored under an older CRD may have none: Kubernetes drops a tls: without a
// value. Nobody has then said that the password may be sent in clear text.
func access(field string, with *scaledjobv1.RedisAuth, by *scaledjobv1.RedisTLS) (
	username string, password auth.SecretKey, tls auth.TLS, err error,
) {
	if with != nil && by == nil {
		return "", auth.SecretKey{}, auth.TLS{}, &failure.Error{
			Reason: failure.ReasonTLSFailed,
			Message: field + " has auth and no tls, and the operator does not send a password in clear text unasked. Add the line tls: " +
				"{mode: Enabled} to " + field + ", or tls: {mode: Disabled} if the server has no TLS.",
			Err: errors.New(field + " has auth and no tls"),
		}
	}
	username, password = login(with)
	return username, password, encryption(by), nil
}

// login converts credentials, which may be nil.
func login(with *scaledjobv1.RedisAuth) (username string, password auth.SecretKey) {
	if with == nil {
		return "", auth.SecretKey{}
	}
	return with.Username, secretKey(with.PasswordSecretRef, scaledjobv1.DefaultPasswordKey)
}

// encryption converts TLS settings, which may be nil. Unless they say Disabled, TLS is enabled.
func encryption(tls *scaledjobv1.RedisTLS) auth.TLS {
	if tls == nil || tls.Mode == scaledjobv1.RedisTLSDisabled {
		return auth.TLS{}
	}
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
