// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/words"
)

// quiet is how long nothing must follow the last Job, so that one too many is
// not missed.
const quiet = 250 * time.Millisecond

// check tells whether a promise was kept.
func (p *performance) check(kept bool, format string, args ...any) {
	kind := board.Passed
	if !kept {
		kind = board.Failed
		p.failed = append(p.failed, fmt.Sprintf(format, args...))
	}
	p.stage.Board.Say(kind, format, args...)
}

// finish waits until all is worked off, and checks what every scene promises.
func (p *performance) finish(ctx context.Context) error {
	if err := p.awaitDue(ctx); err != nil {
		return err
	}
	if err := p.await(ctx, "all Jobs have finished, and the status says so", idle); err != nil {
		return err
	}
	if err := pause(ctx, quiet); err != nil {
		return err
	}
	rows := p.rows()
	p.checkNumbers(rows)
	p.checkLimits(rows)
	p.checkKilled(rows)
	return p.checkEmpty(ctx, rows)
}

// idle reports whether no Job is active, nor reported to be.
func idle(rows []board.Row) bool {
	return all(rows, func(row board.Row) bool {
		status := row.ScaledJob.Status
		return row.Unfinished == 0 && status.ActiveJobs == 0 && status.QueueDepth != nil && *status.QueueDepth == 0
	})
}

// checkNumbers checks that as many Jobs were created as were due.
func (p *performance) checkNumbers(rows []board.Row) {
	exact := true
	for _, row := range rows {
		name := row.ScaledJob.Name
		if p.created(row) != p.due[name] {
			exact = false
			p.check(false, "%s: %s due, %d created", name, words.Count(p.due[name], "Job"), p.created(row))
		}
	}
	if exact {
		p.check(true, "%s due, %d created", words.Count(p.totalDue(), "Job"), p.totalCreated(rows))
	}
}

// checkLimits checks that never more Jobs were active than maxReplicas allows.
func (p *performance) checkLimits(rows []board.Row) {
	limited := true
	var peaks []string
	for _, row := range rows {
		limit := int(row.ScaledJob.Spec.MaxReplicasOrDefault())
		limited = limited && row.Peak <= limit
		peaks = append(peaks, fmt.Sprintf("%d of %d", row.Peak, limit))
	}
	p.check(limited, "never more active than max: at most %s", strings.Join(peaks, ", "))
}

// checkKilled checks that no Job was deleted before it finished.
func (p *performance) checkKilled(rows []board.Row) {
	for i, row := range rows {
		if killed := row.Killed - p.before[i].Killed; killed > 0 {
			p.check(false, "%s: %s deleted before the end", row.ScaledJob.Name, words.Count(killed, "Job"))
		}
	}
}

// checkEmpty checks that no message is left.
func (p *performance) checkEmpty(ctx context.Context, rows []board.Row) error {
	for _, row := range rows {
		left, err := p.stage.Queues.Depth(ctx, row.ScaledJob.Name)
		if err != nil {
			return err
		}
		if left > 0 {
			p.check(false, "%s: all Jobs have finished, but messages are left: %d", row.ScaledJob.Name, left)
		}
	}
	return nil
}
