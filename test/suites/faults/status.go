// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// awaitStatus returns nil once the status is as it should be, and otherwise when ctx ends or after the usual time of a
// fixture.
func (q *Queue) awaitStatus(ctx context.Context, what string, holds func(*scaledjobv1.ScaledJobStatus) bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return q.AwaitStatus(ctx, what, func(object *scaledjobv1.ScaledJob) bool { return holds(&object.Status) })
}

// awaitCondition waits until a condition has this reason.
func (q *Queue) awaitCondition(ctx context.Context, kind, reason string) error {
	return q.awaitStatus(ctx, kind+" is "+reason, func(status *scaledjobv1.ScaledJobStatus) bool {
		return reasonOf(status, kind) == reason
	})
}

func reasonOf(status *scaledjobv1.ScaledJobStatus, kind string) string {
	condition := apimeta.FindStatusCondition(status.Conditions, kind)
	if condition == nil {
		return ""
	}
	return condition.Reason
}

// awaitUnreadable waits until the operator says that it cannot read the queue, for
// this reason, and that this keeps it from its work.
func (q *Queue) awaitUnreadable(ctx context.Context, reason string) error {
	return q.awaitStatus(ctx, "nothing is ready for "+reason, func(status *scaledjobv1.ScaledJobStatus) bool {
		return apimeta.IsStatusConditionFalse(status.Conditions, scaledjobv1.ConditionReady) &&
			reasonOf(status, scaledjobv1.ConditionReady) == reason &&
			reasonOf(status, scaledjobv1.ConditionQueueConnected) == reason
	})
}

// awaitPolling waits until the operator says that it hears nothing of the queue, and why.
func (q *Queue) awaitPolling(ctx context.Context, reason string) error {
	return q.awaitStatus(ctx, "the mode is Polling for "+reason, func(status *scaledjobv1.ScaledJobStatus) bool {
		return status.Mode == scaledjobv1.ModePolling &&
			reasonOf(status, scaledjobv1.ConditionNotificationsActive) == reason
	})
}

// awaitMode waits until the operator says that it hears of the queue in this way.
func (q *Queue) awaitMode(ctx context.Context, mode scaledjobv1.ScalingMode) error {
	return q.awaitStatus(ctx, "the mode is "+string(mode), func(status *scaledjobv1.ScaledJobStatus) bool {
		return status.Mode == mode
	})
}

// awaitDepth waits until the status shows the depth that the queue has.
func (q *Queue) awaitDepth(ctx context.Context) error {
	depth, err := q.Depth(ctx)
	if err != nil {
		return err
	}
	return q.awaitWaiting(ctx, int64(depth))
}

// awaitWaiting waits until the status shows this depth.
func (q *Queue) awaitWaiting(ctx context.Context, depth int64) error {
	return q.awaitStatus(ctx, fmt.Sprintf("the depth is %d", depth), func(status *scaledjobv1.ScaledJobStatus) bool {
		return status.QueueDepth != nil && *status.QueueDepth == depth &&
			reasonOf(status, scaledjobv1.ConditionQueueConnected) == scaledjobv1.ReasonConnected
	})
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
	return errors.Join(q.Update(ctx, scene.Polling(1)), fact(ctx), q.Update(ctx, scene.Polling(scene.Never)), q.AwaitRest(ctx))
}
