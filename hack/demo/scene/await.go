// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
)

// patience is how long a single condition may take to become true.
const patience = time.Minute

// await waits until the condition is true. Its error names the condition.
func (s Stage) await(ctx context.Context, what string, condition func([]board.Row) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took more than %s", patience))
	defer cancel()
	err := s.Board.Await(ctx, func(snapshot board.Snapshot) bool { return condition(snapshot.Rows) })
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// tellOfSilence shows the message of NotificationsActive if notifications do not work or are not verified.
func (s Stage) tellOfSilence(ctx context.Context) error {
	const kind = scaledjobv1.ConditionNotificationsActive
	var active *metav1.Condition // equal for all ScaledJobs, which use the same Redis
	err := s.await(ctx, kind+" is known", func(rows []board.Row) bool {
		active = apimeta.FindStatusCondition(rows[0].ScaledJob.Status.Conditions, kind)
		return active != nil
	})
	if err != nil || active.Status == metav1.ConditionTrue {
		return err
	}
	if active.Status == metav1.ConditionFalse {
		s.Board.Say(board.Done, "Jobs will take seconds: the demo does not change the settings of your Redis")
	}
	s.Board.Say(board.Seen, "%s", active.Message)
	return nil
}

// reaction returns the time from the last push until its first Job was seen.
func (s Stage) reaction(ctx context.Context, scaledJob string) (reaction time.Duration, err error) {
	err = s.await(ctx, "a Job of "+scaledJob+" appears", func(rows []board.Row) bool {
		row := find(rows, scaledJob)
		reaction = row.Reaction
		return !row.Awaiting
	})
	return reaction, err
}

// awaitDue waits until all Jobs that are due were seen.
func (s Stage) awaitDue(ctx context.Context) error {
	return s.await(ctx, "all Jobs that are due have appeared", func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool { return row.InScene.Created >= row.InScene.Due })
	})
}

// awaitMode waits until all ScaledJobs report the mode.
func (s Stage) awaitMode(ctx context.Context, mode scaledjobv1.ScalingMode) error {
	return s.await(ctx, "the mode is "+string(mode), func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool { return row.ScaledJob.Status.Mode == mode })
	})
}

// awaitQueueConnected waits until all ScaledJobs have this status of the condition.
func (s Stage) awaitQueueConnected(ctx context.Context, status metav1.ConditionStatus) error {
	const kind = scaledjobv1.ConditionQueueConnected
	return s.await(ctx, kind+" is "+string(status), func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool {
			return apimeta.IsStatusConditionPresentAndEqual(row.ScaledJob.Status.Conditions, kind, status)
		})
	})
}

func (s Stage) rows() []board.Row {
	snapshot, _ := s.Board.Look()
	return snapshot.Rows
}

// polled reports whether the operator polls all queues.
func (s Stage) polled() bool {
	return all(s.rows(), func(row board.Row) bool { return row.ScaledJob.Status.Mode == scaledjobv1.ModePolling })
}

// find returns the row of a ScaledJob.
func find(rows []board.Row, name string) board.Row {
	i := slices.IndexFunc(rows, func(row board.Row) bool { return row.ScaledJob.Name == name })
	return rows[i]
}

func all(rows []board.Row, holds func(board.Row) bool) bool {
	return !slices.ContainsFunc(rows, func(row board.Row) bool { return !holds(row) })
}
