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

// patience is how long a single fact may take to come true.
const patience = time.Minute

// await returns when the condition is true, or with an error that says what was
// waited for.
func (p *performance) await(ctx context.Context, what string, condition func([]board.Row) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took more than %s", patience))
	defer cancel()
	err := p.stage.Board.Await(ctx, func(snapshot board.Snapshot) bool { return condition(snapshot.Rows) })
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// reaction returns the time from the last push to the first Job of it.
func (p *performance) reaction(ctx context.Context, scaledJob string) (reaction time.Duration, err error) {
	err = p.await(ctx, "a Job of "+scaledJob+" appears", func(rows []board.Row) bool {
		row := find(rows, scaledJob)
		reaction = row.Reaction()
		return !row.Awaiting
	})
	return reaction, err
}

// awaitDue returns when all Jobs that are due have been seen.
func (p *performance) awaitDue(ctx context.Context) error {
	return p.await(ctx, "all Jobs that are due have appeared", func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool { return p.created(row) >= p.due[row.ScaledJob.Name] })
	})
}

// awaitMode returns when all ScaledJobs report the mode.
func (p *performance) awaitMode(ctx context.Context, mode scaledjobv1.ScalingMode) error {
	return p.await(ctx, "the mode is "+string(mode), func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool { return row.ScaledJob.Status.Mode == mode })
	})
}

// awaitQueueConnected returns when all ScaledJobs report that condition.
func (p *performance) awaitQueueConnected(ctx context.Context, status metav1.ConditionStatus) error {
	const kind = scaledjobv1.ConditionQueueConnected
	return p.await(ctx, kind+" is "+string(status), func(rows []board.Row) bool {
		return all(rows, func(row board.Row) bool {
			return apimeta.IsStatusConditionPresentAndEqual(row.ScaledJob.Status.Conditions, kind, status)
		})
	})
}

func all(rows []board.Row, holds func(board.Row) bool) bool {
	return !slices.ContainsFunc(rows, func(row board.Row) bool { return !holds(row) })
}

// pause returns after a while, or with an error as soon as ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
