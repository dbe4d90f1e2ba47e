// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// atNextSignIn is how soon an operator is back whose credentials were refused:
	// it tries them every half minute.
	atNextSignIn = 35 * time.Second
	// atNextRetry is how soon channels are heard that were forbidden: they are tried
	// every minute.
	atNextRetry = 65 * time.Second
)

// permissionFaults are what happens to the user whom the operator signs in as.
func permissionFaults() []QueueFault {
	return []QueueFault{
		{
			Fault{
				Name:    "LLEN revoked",
				Promise: "nothing is decided on an unknown depth, and messages get their Jobs once it is granted",
				Within:  atNextAttempt,
			}, strikeReadRevoked,
		}, {
			Fault{
				Name:    "user switched off",
				Promise: "nothing is decided on an unknown depth, and messages get their Jobs at the next sign-in",
				Within:  atNextSignIn,
			}, strikeUserOff,
		},
	}
}

// permit changes what the operator's user may do.
func (t *Target) permit(ctx context.Context, rules ...any) error {
	return t.command(ctx, append([]any{"ACL", "SETUSER", "default"}, rules...)...)
}

// permitChannels lets the operator subscribe to the channels of these queues, and
// to no others. The server ends its connection if it is subscribed to another.
func (t *Target) permitChannels(ctx context.Context, queues ...*Queue) error {
	rules := []any{"resetchannels", "-client|tracking"}
	for _, q := range queues {
		rules = append(rules, "&"+q.Channel())
	}
	return t.permit(ctx, rules...)
}

func strikeReadRevoked(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	return errors.Join(
		q.target.permit(ctx, "-llen"),
		q.blind(ctx, meanwhile, scaledjobv1.ReasonPermissionDenied),
		q.target.permit(ctx, "+llen"))
}

// strikeUserOff breaks the connections as well: to those, the server is true.
func strikeUserOff(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	return errors.Join(
		q.target.permit(ctx, "off"), q.target.command(ctx, "CLIENT", "KILL", "USER", "default"),
		q.blind(ctx, meanwhile, scaledjobv1.ReasonAuthFailed),
		q.target.permit(ctx, "on"))
}

// blind has messages come while the depth cannot be read for this reason, and
// returns an error if a Job comes of them.
func (q *Queue) blind(ctx context.Context, meanwhile Meanwhile, reason string) error {
	before := q.Witness.Created()
	err := errors.Join(meanwhile(ctx), q.awaitUnreadable(ctx, reason), q.Witness.CatchUp(ctx))
	if created := q.Witness.Created(); err == nil && created != before {
		err = fmt.Errorf("%d Jobs of %s were created on an unknown depth", created-before, q.Object.Name)
	}
	return err
}
