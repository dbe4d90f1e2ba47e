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

// tracked says what the column MODE shows.
const tracked = "MODE becomes Tracking with the first change"

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

// notificationsActive returns the condition, or nil while it is unknown. It is the same for all ScaledJobs, which use
// the same Redis.
func notificationsActive(rows []board.Row) *metav1.Condition {
	return apimeta.FindStatusCondition(rows[0].ScaledJob.Status.Conditions, scaledjobv1.ConditionNotificationsActive)
}

// explainSilence says what happens if Redis sends no notifications.
func (s Stage) explainSilence(ctx context.Context) error {
	var active *metav1.Condition
	err := s.await(ctx, scaledjobv1.ConditionNotificationsActive+" is known", func(rows []board.Row) bool {
		active = notificationsActive(rows)
		return active != nil
	})
	if err == nil && active.Reason == scaledjobv1.ReasonNotConfigured {
		s.Board.Say(board.Done, "your Redis sends no notifications, which is its default: the operator has it track the keys; "+tracked)
	}
	return err
}

// explainPolling shows the message of NotificationsActive if the operator still polls.
func (s Stage) explainPolling() {
	if s.polled() {
		s.Board.Say(board.Seen, "%s", notificationsActive(s.rows()).Message)
	}
}

// await is that of the stage.
func (p *performance) await(what string, condition func([]board.Row) bool) {
	p.do(func(ctx context.Context) error { return p.Stage.await(ctx, what, condition) })
}

// reaction returns the time from the last push until its first Job was seen.
func (p *performance) reaction(scaledJob string) (reaction time.Duration) {
	p.await("a Job of "+scaledJob+" appears", func(rows []board.Row) bool {
		row := find(rows, scaledJob)
		reaction = row.Reaction
		return !row.Awaiting
	})
	return reaction
}

// awaitDue waits until all Jobs that are due were seen.
func (p *performance) awaitDue() {
	p.await("all Jobs that are due have appeared", func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool { return row.InScene.Created >= row.InScene.Due })
	})
}

// awaitMode waits until all ScaledJobs report the mode.
func (p *performance) awaitMode(mode scaledjobv1.ScalingMode) {
	p.await("the mode is "+string(mode), func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool { return row.ScaledJob.Status.Mode == mode })
	})
}

// awaitQueueConnected waits until all ScaledJobs have this status of the condition.
func (p *performance) awaitQueueConnected(status metav1.ConditionStatus) {
	const kind = scaledjobv1.ConditionQueueConnected
	p.await(kind+" is "+string(status), func(rows []board.Row) bool {
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
