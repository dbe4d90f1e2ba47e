// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor/redis"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/secrets"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// Access returns how to sign in to the servers of a ScaledJob, and to its sentinels, from the Secrets that the user may
// read. The error says for people what is missing, or can't be used. Its reason is Unreachable if the API server gave
// no answer.
func Access(ctx context.Context, api client.Reader, sj *scaledjobv1.ScaledJob) (servers, sentinels redis.Access, err *failure.Error) {
	resolved := scaledjob.Resolve(sj)
	if resolved.Err != nil {
		return servers, sentinels, failure.Classify(resolved.Err)
	}
	resolver := auth.NewResolver(ofUser{secrets.NewReader(api)}, true) // As for Queues.
	switch at := resolved.Source.Endpoint; at.Mode {
	case auth.ModeStandalone:
		servers, err = access(ctx, resolver, at)
	case auth.ModeCluster:
		servers, err = access(ctx, resolver, at.ServerAt(at.Addresses()[0]))
	case auth.ModeSentinel:
		if servers, err = access(ctx, resolver, at.ServerAt(at.Addresses()[0])); err == nil {
			sentinels, err = access(ctx, resolver, at.SentinelAt(at.Addresses()[0]))
		}
	}
	return servers, sentinels, err
}

// access returns how to sign in to all servers with the credentials of this one.
func access(ctx context.Context, resolver *auth.Resolver, to auth.Endpoint) (redis.Access, *failure.Error) {
	loaded, err := resolver.Load(ctx, to)
	if err != nil {
		return redis.Access{}, err
	}
	is := redis.Access{Username: to.Username, Password: loaded.Password(), TLS: loaded.TLSConfig()}
	if is.TLS != nil {
		is.TLS.ServerName = to.TLS.ServerName // Without one, it is the host of each server.
	}
	return is, nil
}

// ofUser reads Secrets. Its errors are about the permissions of the user, and not of the operator.
type ofUser struct{ secrets *secrets.Reader }

// Read implements [auth.Secrets].
func (u ofUser) Read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	data, err := u.secrets.Read(ctx, namespace, name)
	if refused, is := errors.AsType[*failure.Error](err); is && apierrors.IsForbidden(refused.Err) {
		return nil, &failure.Error{
			Reason: refused.Reason, Message: fmt.Sprintf("You may not read the Secret %q.", name), Err: refused.Err,
		}
	}
	return data, err
}
