// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/view"
)

// quiet is how long to wait after the last Job for surplus Jobs.
const quiet = 250 * time.Millisecond

// check shows whether a check has passed.
func (p *performance) check(kept bool, format string, args ...any) {
	if p.err != nil {
		return
	}
	kind := board.Passed
	if !kept {
		kind = board.Failed
		p.failed = append(p.failed, fmt.Sprintf(format, args...))
	}
	p.Board.Say(kind, format, args...)
}

// finish waits until all queues are empty and all Jobs have finished, and runs the checks that all scenes share.
func (p *performance) finish() {
	p.awaitDue()
	p.await("all Jobs have finished, and the status says so", idle)
	p.pause(quiet)
	p.do(func(ctx context.Context) error { return p.Environment.SampleDepths(ctx, p.Board) })
	p.checkPromises()
}

// idle reports whether no Job is active, and the status says so too.
func idle(rows []board.Row) bool {
	return all(rows, func(row board.Row) bool {
		status := row.ScaledJob.Status
		return row.Unfinished == 0 && status.ActiveJobs == 0 && status.QueueDepth != nil && *status.QueueDepth == 0
	})
}

// checkPromises runs the checks that all scenes share.
func (p *performance) checkPromises() {
	rows := p.rows()
	p.checkNumbers(rows)
	p.checkLimits(rows)
	for _, row := range rows {
		name, killed := row.ScaledJob.Name, row.InScene.Killed
		if killed > 0 {
			p.check(false, "%s: %s deleted before the end", name, view.Count(killed, "Job"))
		}
		if left := row.Depth(); left > 0 {
			p.check(false, "%s: all Jobs have finished, but messages are left: %d", name, left)
		}
	}
}

// checkNumbers checks that the number of created Jobs is the number that was due.
func (p *performance) checkNumbers(rows []board.Row) {
	exact := true
	for _, row := range rows {
		due, created := row.InScene.Due, row.InScene.Created
		if created != due {
			exact = false
			p.check(false, "%s: %s due, %d created", row.ScaledJob.Name, view.Count(due, "Job"), created)
		}
	}
	if exact {
		sum := sumUp(rows)
		p.check(true, "%s due, %d created", view.Count(sum.Due, "Job"), sum.Created)
	}
}

// checkLimits checks that there were never more active Jobs than maxReplicas.
func (p *performance) checkLimits(rows []board.Row) {
	limited := true
	var peaks []string
	for _, row := range rows {
		peak, limit := row.InScene.Peak, int(row.ScaledJob.Spec.MaxReplicasOrDefault())
		limited = limited && peak <= limit
		peaks = append(peaks, fmt.Sprintf("%d of %d", peak, limit))
	}
	p.check(limited, "never more active than max: at most %s", strings.Join(peaks, ", "))
}
