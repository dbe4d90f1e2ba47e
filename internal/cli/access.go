// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor"
	"miracle.dev/scaledjob-operator/internal/cli/doctor/redis"
)

// inquiry are the flags for how to look at Redis.
type inquiry struct {
	address     string
	scan, probe bool
}

// check returns an error for an address that is none.
func (i *inquiry) check() error {
	if i.address == "" {
		return nil
	}
	if host, port, err := net.SplitHostPort(i.address); err != nil || host == "" || port == "" {
		return say("%q is no address. Write --redis-address=HOST:PORT", i.address)
	}
	return nil
}

// readRedis looks at Redis, with the credentials of the operator.
func (e *examination) readRedis(ctx context.Context, how *inquiry) error {
	spec := &e.facts.ScaledJob.Spec
	if spec.RedisAddress == "" && spec.Redis == nil {
		return nil // It was stored under another CRD.
	}
	target := doctor.TargetOf(e.facts.ScaledJob)
	target.Instead, target.Scan, target.Probe = how.address, how.scan, how.probe
	e.facts.Target = target
	if at := spec.Redis; at != nil {
		var err error
		if target.Access, err = e.access(ctx, at.Auth, at.TLS); err != nil {
			return err
		}
		if at.Sentinel != nil {
			if target.Sentinels, err = e.access(ctx, at.Sentinel.Auth, at.Sentinel.TLS); err != nil {
				return err
			}
		}
	}
	if settings := target.Access.TLS; settings != nil && settings.ServerName == "" && target.Instead != "" {
		// The certificate is for the address in the spec.
		settings.ServerName, _, _ = net.SplitHostPort(target.Addresses[0])
	}
	if _, missing := e.facts.Missing[doctor.NeedRedis]; !missing && e.facts.RedisFault == "" {
		e.facts.Redis = redis.Look(ctx, target)
	}
	return ctx.Err()
}

// access reads the credentials. It notes a Secret that can't be read, and a value that can't be used.
func (e *examination) access(ctx context.Context, auth *scaledjobv1.RedisAuth, secured *scaledjobv1.RedisTLS) (redis.Access, error) {
	var is redis.Access
	var err error
	if auth != nil {
		if secured == nil {
			e.facts.Missing[doctor.NeedRedis] = "The spec has credentials, and does not say whether to use TLS. So nothing was sent to Redis."
		}
		is.Username = auth.Username
		if is.Password, err = e.secret(ctx, auth.PasswordSecretRef, scaledjobv1.DefaultPasswordKey); err != nil {
			return redis.Access{}, err
		}
		// Files end with one, and the operator ignores it too.
		is.Password = strings.TrimSuffix(strings.TrimSuffix(is.Password, "\n"), "\r")
	}
	if secured != nil && secured.Mode != scaledjobv1.RedisTLSDisabled {
		is.TLS, err = e.tlsConfig(ctx, secured)
	}
	return is, err
}

// tlsConfig returns the settings for TLS.
func (e *examination) tlsConfig(ctx context.Context, with *scaledjobv1.RedisTLS) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: with.ServerName,
		InsecureSkipVerify: with.InsecureSkipVerify, //nolint:gosec // The spec asks for it, and a check warns about it.
	}
	authorities, err := e.secret(ctx, with.CASecretRef, scaledjobv1.DefaultCAKey)
	if err != nil {
		return nil, err
	}
	if authorities != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(authorities)) {
			e.facts.RedisFault = fmt.Sprintf("The Secret %q has no PEM certificate for spec.redis.tls.caSecretRef.", with.CASecretRef.Name)
		}
	}
	certificate, err := e.secret(ctx, with.CertSecretRef, scaledjobv1.DefaultCertificateKey)
	if err != nil {
		return nil, err
	}
	key, err := e.secret(ctx, with.KeySecretRef, scaledjobv1.DefaultPrivateKeyKey)
	if err != nil || certificate == "" || key == "" {
		return config, err
	}
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		e.facts.RedisFault = fmt.Sprintf("The client certificate in the Secret %q does not match its private key.", with.CertSecretRef.Name)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// secret returns a value of a Secret; empty if none is named, or if it can't be read, which is noted.
func (e *examination) secret(ctx context.Context, named *scaledjobv1.SecretKeyReference, defaultKey string) (string, error) {
	if named == nil {
		return "", nil
	}
	var is corev1.Secret
	err := e.Get(ctx, client.ObjectKey{Namespace: e.facts.Namespace, Name: named.Name}, &is)
	value, exists := is.Data[cmp.Or(named.Key, defaultKey)]
	switch {
	case apierrors.IsForbidden(err):
		e.facts.Missing[doctor.NeedRedis] = fmt.Sprintf("You may not read the Secret %q, without which Redis can't be asked.", named.Name)
	case apierrors.IsNotFound(err), err == nil && !exists:
		e.facts.Missing[doctor.NeedRedis] = fmt.Sprintf("The Secret %q, or its key, does not exist. Without it, Redis can't be asked.", named.Name)
	case err != nil:
		return "", err
	}
	return string(value), nil
}
