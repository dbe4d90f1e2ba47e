// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sjtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// changesPerScrape is how many reconciles Disturb asks for before it counts them.
	changesPerScrape = 10
	// changeInterval is between two of them. While watches are late, or down, more of them would only take CPU time.
	changeInterval = 10 * time.Millisecond
)

// AwaitSubscription returns once somebody is subscribed to the queue, or its keys are tracked. From then on the
// operator notices a push without a resync.
func (s *ScaledJob) AwaitSubscription(ctx context.Context) error {
	if s.Object.Spec.Notifications == scaledjobv1.NotificationsTracking {
		return s.AwaitTracked(ctx)
	}
	err := Await(ctx, func(ctx context.Context) error {
		subscribers, err := s.Subscribers(ctx)
		if err == nil && subscribers == 0 {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for a subscription to %s: %w", s.Queue, err)
	}
	return nil
}

// AwaitTracked returns once Redis tracks the keys.
func (s *ScaledJob) AwaitTracked(ctx context.Context) error {
	return s.AwaitStatus(ctx, "the keys are tracked", isTracked)
}

// isTracked reports whether the status says that Redis tracks the keys.
func isTracked(object *scaledjobv1.ScaledJob) bool {
	active := apimeta.FindStatusCondition(object.Status.Conditions, scaledjobv1.ConditionNotificationsActive)
	return active != nil && strings.Contains(active.Message, "Redis tracks the keys")
}

// AwaitStatus returns once the ScaledJob is as it should be. What that is, follows on "until" in the error.
func (s *ScaledJob) AwaitStatus(ctx context.Context, what string, holds func(*scaledjobv1.ScaledJob) bool) error {
	err := Await(ctx, func(ctx context.Context) error {
		object, err := s.Get(ctx)
		if err == nil && !holds(object) {
			err = fmt.Errorf("its status is %s", Explain(&object.Status))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting until %s of ScaledJob %s: %w", what, s.Name, err)
	}
	return nil
}

// Explain is what a status says, for a message about what did not happen.
func Explain(status *scaledjobv1.ScaledJobStatus) string {
	var text strings.Builder
	fmt.Fprintf(&text, "mode %q, %d active", status.Mode, status.ActiveJobs)
	if status.QueueDepth != nil {
		fmt.Fprintf(&text, ", depth %d", *status.QueueDepth)
	}
	for _, c := range status.Conditions {
		fmt.Fprintf(&text, "\n%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text.String()
}

// AwaitTemplateChecked returns once the operator has asked the API server about the template, as it does once for each
// change of the spec. Where many ScaledJobs wait for that, each gets a turn, and is reconciled then.
func (s *ScaledJob) AwaitTemplateChecked(ctx context.Context) error {
	return s.AwaitStatus(ctx, "the template is checked", func(object *scaledjobv1.ScaledJob) bool {
		valid := apimeta.FindStatusCondition(object.Status.Conditions, scaledjobv1.ConditionTemplateValid)
		return valid != nil && valid.ObservedGeneration == object.Generation && valid.Status != metav1.ConditionUnknown
	})
}

// Reconciles returns how often the operator has reconciled the ScaledJob.
func (s *ScaledJob) Reconciles(ctx context.Context) (int, error) {
	metrics, err := s.Operator.Metrics(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting the reconciles of %s: %w", s.Key(), err)
	}
	return metrics.Reconciles(s.Key()), nil
}

// recentReconciles is Reconciles as of a moment ago, for those who ask again and again.
func (s *ScaledJob) recentReconciles(ctx context.Context) (int, error) {
	metrics, err := s.Operator.RecentMetrics(ctx)
	return metrics.Reconciles(s.Key()), err
}

// AwaitReconciles returns after so many more reconciles.
func (s *ScaledJob) AwaitReconciles(ctx context.Context, more int) error {
	before, err := s.Reconciles(ctx)
	if err != nil {
		return err
	}
	return Await(ctx, func(ctx context.Context) error {
		now, err := s.recentReconciles(ctx)
		if err == nil && now < before+more {
			err = fmt.Errorf("%d of %d reconciles of %s", now-before, more, s.Name)
		}
		return err
	})
}

// AwaitQuiet returns when the ScaledJob has not been reconciled for this long, and no check of its template is left,
// which would have it reconciled without anybody asking.
func (s *ScaledJob) AwaitQuiet(ctx context.Context, period time.Duration) error {
	if err := s.AwaitTemplateChecked(ctx); err != nil {
		return err
	}
	last, since := -1, time.Now()
	for time.Since(since) < period {
		now, err := s.recentReconciles(ctx)
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if err := Pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("waiting until reconciles of %s end: %w", s.Name, err)
		}
	}
	return nil
}

// Disturb brings about so many reconciles by changes of a Job that do not change how many Jobs are due.
func (s *ScaledJob) Disturb(ctx context.Context, reconciles int) error {
	before, err := s.Reconciles(ctx)
	for done := before; err == nil && done < before+reconciles; {
		for i := range changesPerScrape {
			if err := errors.Join(s.Nudge(ctx, i%2), Pause(ctx, changeInterval)); err != nil {
				return err
			}
		}
		done, err = s.recentReconciles(ctx)
	}
	return err
}

// Nudge has so many Pods of a Job be ready, 0 or 1, which does not change how many Jobs are due.
func (s *ScaledJob) Nudge(ctx context.Context, ready int) error {
	jobs := s.Jobs.Unfinished()
	if len(jobs) == 0 {
		return fmt.Errorf("ScaledJob %s has no Job to change", s.Name)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: jobs[0]}}
	status := fmt.Appendf(nil, `{"status":{"active":1,"ready":%d}}`, ready)
	if err := s.API.Status().Patch(ctx, job, client.RawPatch(types.MergePatchType, status)); err != nil {
		return fmt.Errorf("changing Job %s: %w", jobs[0], err)
	}
	return nil
}

// pollInterval is how often a condition is asked for.
const pollInterval = 20 * time.Millisecond

// Pause returns nil after this time, or the cause of the end of ctx as soon as it ends.
func Pause(ctx context.Context, duration time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Await returns nil once condition does. When ctx ends before that, it returns the cause and the last error of
// condition.
func Await(ctx context.Context, condition func(context.Context) error) error {
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if ended := Pause(ctx, pollInterval); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}
