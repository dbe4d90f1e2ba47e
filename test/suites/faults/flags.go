// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// atNextQuestion is how soon the operator knows of other flags: it asks for them
// every five seconds.
const atNextQuestion = 7 * time.Second

// trackedMeanwhile is the name of a fault that costs nothing.
const trackedMeanwhile = `notify-keyspace-events "", keys tracked`

// flagFaults take away what the server needs to announce growth.
func flagFaults() []QueueFault {
	const promise = "polled meanwhile, and messages since the last poll get their Jobs when the flags are back"
	return []QueueFault{
		{
			Fault{Name: `notify-keyspace-events ""`, Promise: promise, Within: atNextQuestion},
			func(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
				return errors.Join(
					q.target.forbidTracking(ctx),
					q.target.setFlags(ctx, ""), q.awaitPolling(ctx, scaledjobv1.ReasonNotConfigured),
					q.poll(ctx, meanwhile), q.deaf(ctx, meanwhile),
					q.target.setFlags(ctx, redistest.DefaultEvents))
			},
		},
		{
			Fault{
				Name:    trackedMeanwhile,
				Promise: "the server tracks the keys meanwhile, and messages get their Jobs at once",
				Within:  atNextQuestion,
			}, strikeTracked,
		},
	}
}

// forbidTracking keeps the operator from tracking keys, so that it can only poll.
func (t *Target) forbidTracking(ctx context.Context) error {
	return t.command(ctx, "ACL", "SETUSER", "default", "-client|tracking")
}

// strikeTracked has messages come and get their Jobs while nothing is announced.
func strikeTracked(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	return errors.Join(
		q.target.setFlags(ctx, ""), q.AwaitTracked(ctx),
		meanwhile(ctx), q.AwaitExpected(ctx), q.awaitMode(ctx, scaledjobv1.ModeTracking),
		meanwhile(ctx), q.target.setFlags(ctx, redistest.DefaultEvents))
}

// setFlags sets which events the server publishes.
func (t *Target) setFlags(ctx context.Context, flags string) error {
	return t.configure(ctx, verify.Parameter, flags)
}

// deaf has messages come of which the operator hears nothing, and nothing else
// tells it of them either.
func (q *Queue) deaf(ctx context.Context, meanwhile Meanwhile) error {
	return errors.Join(q.AwaitRest(ctx), q.unnoticed(ctx, meanwhile))
}

// poll has messages come while the queue is polled, and waits for their Jobs.
func (q *Queue) poll(ctx context.Context, meanwhile Meanwhile) error {
	return errors.Join(q.deaf(ctx, meanwhile), q.polled(ctx, q.AwaitExpected))
}
