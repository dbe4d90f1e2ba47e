// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// status returns what the operator says of the ScaledJob.
func (q *Queue) status(ctx context.Context) (*scaledjobv1.ScaledJobStatus, error) {
	var object scaledjobv1.ScaledJob
	if err := q.setting.API.Get(ctx, q.key(), &object); err != nil {
		return nil, fmt.Errorf("reading the status of %s: %w", q.Object.Name, err)
	}
	return &object.Status, nil
}

// awaitStatus returns nil once the status is as it should be, and otherwise when
// ctx ends or the patience of a fixture does.
func (q *Queue) awaitStatus(ctx context.Context, what string, holds func(*scaledjobv1.ScaledJobStatus) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		status, err := q.status(ctx)
		if err == nil && holds(status) {
			return nil
		}
		if ended := scene.Pause(ctx, probeInterval); ended != nil {
			return errors.Join(fmt.Errorf("waiting until %s of %s: %w; it is %+v", what, q.Object.Name, ended, status), err)
		}
	}
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

// awaitPolling waits until the operator says that it hears nothing of the queue,
// and why.
func (q *Queue) awaitPolling(ctx context.Context, reason string) error {
	return q.awaitStatus(ctx, "the mode is Polling for "+reason, func(status *scaledjobv1.ScaledJobStatus) bool {
		return status.Mode == scaledjobv1.ModePolling &&
			reasonOf(status, scaledjobv1.ConditionNotificationsActive) == reason
	})
}

// awaitEvents waits until the operator says that it hears of the queue.
func (q *Queue) awaitEvents(ctx context.Context) error {
	return q.awaitStatus(ctx, "the mode is Events", func(status *scaledjobv1.ScaledJobStatus) bool {
		return status.Mode == scaledjobv1.ModeEvents
	})
}

// awaitDepth waits until the status shows the depth that the queue has.
func (q *Queue) awaitDepth(ctx context.Context) error {
	depth, err := q.target.Server.Client().LLen(ctx, q.Object.Spec.QueueName).Result()
	if err != nil {
		return fmt.Errorf("reading the depth of %s: %w", q.Object.Name, err)
	}
	return q.awaitStatus(ctx, fmt.Sprintf("the depth is %d", depth), func(status *scaledjobv1.ScaledJobStatus) bool {
		return status.QueueDepth != nil && *status.QueueDepth == depth &&
			reasonOf(status, scaledjobv1.ConditionQueueConnected) == scaledjobv1.ReasonConnected
	})
}

// awaitTemplate waits until the API server was asked about the template, as it is
// once for each change of the spec. Where many ScaledJobs wait for that, each gets
// a turn, and makes a pass then.
func (q *Queue) awaitTemplate(ctx context.Context) error {
	var object scaledjobv1.ScaledJob
	if err := q.setting.API.Get(ctx, q.key(), &object); err != nil {
		return fmt.Errorf("reading ScaledJob %s: %w", q.Object.Name, err)
	}
	return q.awaitStatus(ctx, "the template is checked", func(status *scaledjobv1.ScaledJobStatus) bool {
		valid := apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionTemplateValid)
		return valid != nil && valid.ObservedGeneration == object.Generation && valid.Status != metav1.ConditionUnknown
	})
}

// unnoticed returns an error if the operator sees what do does before anything has
// it look: then waiting for the resync would show nothing.
func (q *Queue) unnoticed(ctx context.Context, do func(context.Context) error) error {
	before, err := q.passes(ctx)
	if err := errors.Join(err, do(ctx), q.AwaitRest(ctx)); err != nil {
		return err
	}
	after, err := q.passes(ctx)
	if err == nil && after != before {
		err = fmt.Errorf("the operator has looked at %s, and nothing should have had it do so", q.Object.Name)
	}
	return err
}

// passes returns how many passes the operator has made over the ScaledJob.
func (q *Queue) passes(ctx context.Context) (int, error) { return q.setting.passes(ctx, q.key()) }

// polled has the queue polled every second until a fact is there, and not any more
// then.
func (q *Queue) polled(ctx context.Context, fact func(context.Context) error) error {
	return errors.Join(q.setInterval(ctx, 1), fact(ctx), q.setInterval(ctx, never), q.AwaitRest(ctx))
}
