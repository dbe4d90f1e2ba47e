// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/words"
)

const (
	// patience is how long a single fact may take to come true.
	patience = time.Minute
	// quiet is how long nothing must follow the last Job, so that one too many
	// is not missed.
	quiet = 250 * time.Millisecond
)

// performance is a scene while it is played.
type performance struct {
	stage    Stage
	began    time.Time
	before   []board.Row
	messages int
	due      map[string]int // Jobs, by ScaledJob
	failed   []string
}

// load is what is pushed to the queue of a ScaledJob.
type load struct {
	scaledJob string
	messages  int
}

func newPerformance(stage Stage) *performance {
	snapshot, _ := stage.Board.Look()
	return &performance{stage: stage, began: time.Now(), before: snapshot.Rows, due: map[string]int{}}
}

func (p *performance) say(format string, args ...any) {
	p.stage.Board.Say(board.Done, format, args...)
}

// check tells whether a promise was kept.
func (p *performance) check(kept bool, format string, args ...any) {
	kind := board.Passed
	if !kept {
		kind = board.Failed
		p.failed = append(p.failed, fmt.Sprintf(format, args...))
	}
	p.stage.Board.Say(kind, format, args...)
}

// push pushes messages to queues that are empty.
func (p *performance) push(ctx context.Context, loads ...load) error {
	var pushed []string
	for _, load := range loads {
		row := find(p.rows(), load.scaledJob)
		p.messages += load.messages
		p.due[load.scaledJob] += due(load.messages, row.ScaledJob.Spec.Threshold)
		p.stage.Board.NotePush(load.scaledJob, time.Now())
		if err := p.stage.Queues.Push(ctx, load.scaledJob, load.messages); err != nil {
			return err
		}
		pushed = append(pushed, fmt.Sprintf("%s %d", load.scaledJob, load.messages))
	}
	p.say("pushed: %s", strings.Join(pushed, ", "))
	return nil
}

// due returns how many Jobs that many messages are for.
func due(messages int, threshold int64) int {
	return (messages + int(threshold) - 1) / int(threshold)
}

// pushOne pushes a message to an empty queue and returns how long its Job took
// to appear.
func (p *performance) pushOne(ctx context.Context, scaledJob string) (reaction time.Duration, err error) {
	if err := p.await(ctx, "the queue of "+scaledJob+" is worked off", func(rows []board.Row) bool {
		return find(rows, scaledJob).Unfinished == 0
	}); err != nil {
		return 0, err
	}
	p.messages++
	p.due[scaledJob]++
	p.stage.Board.NotePush(scaledJob, time.Now())
	if err := p.stage.Queues.Push(ctx, scaledJob, 1); err != nil {
		return 0, err
	}
	return p.reaction(ctx, scaledJob)
}

// pushOneAndSay is pushOne that says how long it took.
func (p *performance) pushOneAndSay(ctx context.Context, scaledJob string) error {
	reaction, err := p.pushOne(ctx, scaledJob)
	if err == nil {
		p.say("1 message for %s: its Job after %s", scaledJob, words.Duration(reaction))
	}
	return err
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
	for _, row := range p.rows() {
		left, err := p.stage.Queues.Depth(ctx, row.ScaledJob.Name)
		if err != nil {
			return err
		}
		if left > 0 {
			p.check(false, "%s: all Jobs have finished, but messages are left: %d", row.ScaledJob.Name, left)
		}
	}
	p.checkJobs(p.rows())
	return nil
}

// idle reports whether no Job is active, nor reported to be.
func idle(rows []board.Row) bool {
	return !slices.ContainsFunc(rows, func(row board.Row) bool {
		status := row.ScaledJob.Status
		return row.Unfinished > 0 || status.ActiveJobs > 0 || status.QueueDepth == nil || *status.QueueDepth > 0
	})
}

// checkJobs checks the numbers of Jobs that a watch of the demo's own has seen.
func (p *performance) checkJobs(rows []board.Row) {
	exact, created, wanted := true, 0, 0
	limited, peaks := true, []string{}
	killed := 0
	for i, row := range rows {
		created += p.created(row)
		wanted += p.due[row.ScaledJob.Name]
		exact = exact && p.created(row) == p.due[row.ScaledJob.Name]
		limit := int(row.ScaledJob.Spec.MaxReplicasOrDefault())
		limited = limited && row.Peak <= limit
		peaks = append(peaks, fmt.Sprintf("%d of %d", row.Peak, limit))
		killed += row.Killed - p.before[i].Killed
	}
	p.check(exact, "%s due, %d created", words.Count(wanted, "Job"), created)
	p.check(limited, "never more active than max: at most %s", strings.Join(peaks, ", "))
	if killed > 0 {
		p.check(false, "%s deleted before the end", words.Count(killed, "Job"))
	}
}

func (p *performance) result(name string) Result {
	result := Result{Name: name, Messages: p.messages, Took: time.Since(p.began), FailedChecks: p.failed}
	for i, row := range p.rows() {
		result.Due += p.due[row.ScaledJob.Name]
		result.Created += p.created(row)
		result.Reactions = append(result.Reactions, row.Reactions[len(p.before[i].Reactions):]...)
	}
	slices.Sort(result.Reactions)
	return result
}

func (p *performance) rows() []board.Row {
	snapshot, _ := p.stage.Board.Look()
	return snapshot.Rows
}

// total returns how many Jobs are due by now.
func (p *performance) total() int {
	total := 0
	for _, due := range p.due {
		total += due
	}
	return total
}

// created returns how many Jobs were seen since the scene began.
func (p *performance) created(row board.Row) int {
	return row.Created - find(p.before, row.ScaledJob.Name).Created
}

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

// find returns the row of a ScaledJob.
func find(rows []board.Row, name string) board.Row {
	i := slices.IndexFunc(rows, func(row board.Row) bool { return row.ScaledJob.Name == name })
	return rows[i]
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
