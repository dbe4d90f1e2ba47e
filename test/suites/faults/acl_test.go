// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// atNextRetry is how soon channels are heard that were forbidden: they are tried every minute.
const atNextRetry = 65 * time.Second

// Forbidden channels are tried again every minute. Only the long form waits for
// that: in the short one the resync goes on doing the work.

func TestOneChannelIsRevoked(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	struck, neighbour := add(t, fixture, "struck"), add(t, fixture, "neighbour")
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := Fault{Name: "one of two channels revoked", Promise: "it is polled, and the other is watched", Within: atNextAttempt}
	end := func(ctx context.Context, _ Meanwhile) error { return struck.Update(ctx, scene.Polling(1)) }
	if *long {
		fault.Name += ", and granted again"
		fault.Promise += ", and messages since the last poll get their Jobs at the next try"
		fault.Within, fixture.Timeout = atNextRetry, 2*atNextRetry
		end = func(ctx context.Context, meanwhile Meanwhile) error {
			return errors.Join(struck.deaf(ctx, meanwhile), fixture.Target.permit(ctx, "allchannels"))
		}
	}
	fault.Strike = func(ctx context.Context, target *Target, _ time.Duration, meanwhile Meanwhile) error {
		return errors.Join(
			target.permitChannels(ctx, neighbour), struck.forbidden(ctx, meanwhile, neighbour), end(ctx, meanwhile))
	}
	row, err := fixture.Play(t.Context(), fault, 0)
	conclude(t, fixture, row, err, fault.Within)
}

// forbidden has messages come of whose queue the operator may not hear, though it
// hears of its neighbours.
func (q *Queue) forbidden(ctx context.Context, meanwhile Meanwhile, neighbours ...*Queue) error {
	heard := func(ctx context.Context) error {
		err := meanwhile(ctx)
		for _, neighbour := range neighbours {
			err = errors.Join(err, neighbour.AwaitExpected(ctx))
		}
		return err
	}
	err := q.awaitPolling(ctx, scaledjobv1.ReasonPermissionDenied)
	for _, neighbour := range neighbours {
		err = errors.Join(err, neighbour.AwaitSubscription(ctx), neighbour.awaitEvents(ctx))
	}
	return errors.Join(err, q.poll(ctx, heard))
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
