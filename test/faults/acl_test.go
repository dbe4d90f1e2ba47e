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
)

// polledAlone is promised of a channel that is forbidden.
const polledAlone = "it is polled, and the other is heard"

// Forbidden channels are tried again every minute. In the short form nobody waits
// for that: the resync does the work, and goes on doing it.

func TestOneChannelIsRevoked(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	scene := newEmptyScene(t)
	struck, neighbour := add(t, scene, "struck"), add(t, scene, "neighbour")
	g.Expect(scene.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := Fault{Name: "one of two channels revoked", Promise: polledAlone, Within: atNextAttempt}
	fault.Strike = func(ctx context.Context, target *Target, _ time.Duration, meanwhile Meanwhile) error {
		return errors.Join(
			target.permitChannels(ctx, neighbour), struck.forbidden(ctx, meanwhile, neighbour),
			struck.setInterval(ctx, 1))
	}
	row, err := scene.Play(t.Context(), fault, 0)
	conclude(t, scene, row, err, fault.Within)
}

func TestOneChannelIsForbiddenFromTheStart(t *testing.T) {
	t.Parallel()
	scene := newEmptyScene(t)
	neighbour := add(t, scene, "neighbour")
	fault := Fault{Name: "one of two channels forbidden", Promise: polledAlone, Within: atNextAttempt}
	fault.Strike = func(ctx context.Context, target *Target, _ time.Duration, meanwhile Meanwhile) error {
		if err := target.permitChannels(ctx, neighbour); err != nil {
			return err
		}
		struck, err := scene.Add(ctx, "struck")
		if err != nil {
			return err
		}
		return errors.Join(struck.forbidden(ctx, meanwhile, neighbour), struck.setInterval(ctx, 1))
	}
	row, err := scene.PlayStart(t.Context(), fault, 0, neighbour.AwaitSubscription)
	conclude(t, scene, row, err, fault.Within)
}

func TestAllChannelsAreForbiddenFromTheStart(t *testing.T) {
	t.Parallel()
	scene := newEmptyScene(t)
	fault := Fault{Name: "all channels forbidden", Promise: "all queues are polled", Within: atNextAttempt}
	fault.Strike = func(ctx context.Context, target *Target, _ time.Duration, meanwhile Meanwhile) error {
		if err := target.permitChannels(ctx); err != nil {
			return err
		}
		struck, err := scene.Add(ctx, "struck")
		if err != nil {
			return err
		}
		return errors.Join(struck.forbidden(ctx, meanwhile), struck.setInterval(ctx, 1))
	}
	row, err := scene.PlayStart(t.Context(), fault, 0, func(context.Context) error { return nil })
	conclude(t, scene, row, err, fault.Within)
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

// Nobody polls here: the messages of the last moment before wait for the channel.
func TestRevokedChannelIsGrantedAgain(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	g := NewWithT(t)
	scene := newEmptyScene(t)
	scene.Patience = 2 * atNextRetry
	struck, neighbour := add(t, scene, "struck"), add(t, scene, "neighbour")
	g.Expect(scene.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := Fault{
		Name:    "one of two channels revoked, and granted again",
		Promise: "messages sent meanwhile get their Jobs at the next try",
		Within:  atNextRetry,
	}
	fault.Strike = func(ctx context.Context, target *Target, _ time.Duration, meanwhile Meanwhile) error {
		return errors.Join(
			target.permitChannels(ctx, neighbour), struck.forbidden(ctx, meanwhile, neighbour),
			struck.deaf(ctx, meanwhile), target.permit(ctx, "allchannels"))
	}
	row, err := scene.Play(t.Context(), fault, 0)
	conclude(t, scene, row, err, fault.Within)
}
