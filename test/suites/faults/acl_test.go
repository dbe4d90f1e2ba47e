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
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// polledAlone is promised of a channel that is forbidden.
const polledAlone = "it is polled, and the other is watched"

// Forbidden channels are tried again every minute. Only the long form waits for
// that: in the short one the resync goes on doing the work.

func TestOneChannelIsRevoked(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	struck, neighbour := add(t, fixture, "struck"), add(t, fixture, "neighbour")
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := Fault{Name: "one of two channels revoked", Promise: polledAlone, Within: atNextAttempt}
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

func TestOneChannelIsForbiddenFromTheStart(t *testing.T) {
	skip.UnderShort(t, "TestOneChannelIsRevoked forbids the same channel later")
	t.Parallel()
	fixture := newEmptyFixture(t)
	neighbour := add(t, fixture, "neighbour")
	fault := Fault{Name: "one of two channels forbidden", Promise: polledAlone, Within: atNextAttempt}
	fault.Strike = func(ctx context.Context, target *Target, _ time.Duration, meanwhile Meanwhile) error {
		if err := target.permitChannels(ctx, neighbour); err != nil {
			return err
		}
		struck, err := fixture.Add(ctx, "struck")
		if err != nil {
			return err
		}
		return errors.Join(struck.forbidden(ctx, meanwhile, neighbour), struck.Update(ctx, scene.Polling(1)))
	}
	row, err := fixture.PlayStart(t.Context(), fault, 0, neighbour.AwaitSubscription)
	conclude(t, fixture, row, err, fault.Within)
}

func TestAllChannelsAreForbiddenFromTheStart(t *testing.T) {
	t.Parallel()
	fixture := newEmptyFixture(t)
	fault := Fault{Name: "all channels forbidden", Promise: "all queues are polled", Within: atNextAttempt}
	fault.Strike = func(ctx context.Context, target *Target, _ time.Duration, meanwhile Meanwhile) error {
		if err := target.permitChannels(ctx); err != nil {
			return err
		}
		struck, err := fixture.Add(ctx, "struck")
		if err != nil {
			return err
		}
		return errors.Join(struck.forbidden(ctx, meanwhile), struck.Update(ctx, scene.Polling(1)))
	}
	row, err := fixture.PlayStart(t.Context(), fault, 0, func(context.Context) error { return nil })
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
