// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// want is what a status must say: the mode, the depth, and the reasons of conditions. What is left out may be anything.
type want struct {
	mode    scaledjobv1.ScalingMode
	depth   *int64
	reasons map[string]string
}

// unreadable is that the operator cannot read the queue, for this reason, and that this keeps it from its work.
func unreadable(reason string) want {
	return want{reasons: map[string]string{scaledjobv1.ConditionReady: reason, scaledjobv1.ConditionQueueConnected: reason}}
}

// polling is that the operator gets no notification of the queue, and why.
func polling(reason string) want {
	return want{mode: scaledjobv1.ModePolling, reasons: map[string]string{scaledjobv1.ConditionNotificationsActive: reason}}
}

// deep is this depth.
func deep(depth int64) want {
	return want{depth: &depth, reasons: map[string]string{scaledjobv1.ConditionQueueConnected: scaledjobv1.ReasonConnected}}
}

func (w want) String() string {
	if w.depth != nil {
		return fmt.Sprintf("the depth is %d", *w.depth)
	}
	return fmt.Sprintf("the mode is %q and the reasons are %q", w.mode, w.reasons)
}

func (w want) holds(object *scaledjobv1.ScaledJob) bool {
	status := &object.Status
	for kind, reason := range w.reasons {
		condition := apimeta.FindStatusCondition(status.Conditions, kind)
		if condition == nil || condition.Reason != reason {
			return false
		}
	}
	return (w.mode == "" || status.Mode == w.mode) &&
		(w.depth == nil || status.QueueDepth != nil && *status.QueueDepth == *w.depth)
}

// await returns nil once the status says that, and otherwise when ctx ends or after the usual time of a fixture.
func (q *Queue) await(ctx context.Context, is want) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return q.AwaitStatus(ctx, is.String(), is.holds)
}

// awaitDepth waits until the status shows the depth that the queue has.
func (q *Queue) awaitDepth(ctx context.Context) error {
	depth, err := q.Depth(ctx)
	if err != nil {
		return err
	}
	return q.await(ctx, deep(int64(depth)))
}

// unnoticed returns an error if the operator sees what do does before anything has
// it look: then waiting for the resync would show nothing.
func (q *Queue) unnoticed(ctx context.Context, do func(context.Context) error) error {
	err := q.AwaitRest(ctx)
	before, readErr := q.Reconciles(ctx)
	if err := errors.Join(err, readErr, do(ctx), q.AwaitRest(ctx)); err != nil {
		return err
	}
	after, err := q.Reconciles(ctx)
	if err == nil && after != before {
		err = fmt.Errorf("the operator has looked at %s, and nothing should have had it do so", q.Name)
	}
	return err
}

// noticed returns an error unless the operator creates the Jobs that are due after do, when nothing else has it look.
func (q *Queue) noticed(ctx context.Context, do func(context.Context) error) error {
	if err := errors.Join(q.AwaitRest(ctx), do(ctx)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return q.AwaitExpected(ctx)
}

// polled has the queue polled every second until a fact is there, and not any more then.
func (q *Queue) polled(ctx context.Context, fact func(context.Context) error) error {
	return errors.Join(q.Update(ctx, sjtest.Polling(1)), fact(ctx), q.Update(ctx, sjtest.Polling(sjtest.Never)), q.AwaitRest(ctx))
}
