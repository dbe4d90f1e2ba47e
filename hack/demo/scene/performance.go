// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/words"
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

// push pushes messages to queues that are empty.
func (p *performance) push(ctx context.Context, loads ...load) error {
	var pushed []string
	for _, load := range loads {
		if err := p.send(ctx, load); err != nil {
			return err
		}
		pushed = append(pushed, fmt.Sprintf("%s %d", load.scaledJob, load.messages))
	}
	p.say("pushed: %s", strings.Join(pushed, ", "))
	return nil
}

// pushOne waits until a queue is worked off, pushes a message, and says how long
// its Job took to appear.
func (p *performance) pushOne(ctx context.Context, scaledJob string) error {
	if err := p.await(ctx, "the queue of "+scaledJob+" is worked off", func(rows []board.Row) bool {
		return find(rows, scaledJob).Unfinished == 0
	}); err != nil {
		return err
	}
	if err := p.send(ctx, load{scaledJob, 1}); err != nil {
		return err
	}
	reaction, err := p.reaction(ctx, scaledJob)
	if err == nil {
		p.say("1 message for %s: its Job after %s", scaledJob, words.Duration(reaction))
	}
	return err
}

// send pushes messages to an empty queue, and counts what is due for them.
func (p *performance) send(ctx context.Context, load load) error {
	row := find(p.rows(), load.scaledJob)
	p.messages += load.messages
	p.due[load.scaledJob] += due(load.messages, row.ScaledJob.Spec.Threshold)
	p.stage.Board.NotePush(load.scaledJob, time.Now())
	return p.stage.Queues.Push(ctx, load.scaledJob, load.messages)
}

// due returns how many Jobs that many messages are for.
func due(messages int, threshold int64) int {
	return (messages + int(threshold) - 1) / int(threshold)
}

func (p *performance) rows() []board.Row {
	snapshot, _ := p.stage.Board.Look()
	return snapshot.Rows
}

// totalDue returns how many Jobs are due for all that was pushed.
func (p *performance) totalDue() int {
	total := 0
	for _, due := range p.due {
		total += due
	}
	return total
}

func (p *performance) totalCreated(rows []board.Row) int {
	total := 0
	for _, row := range rows {
		total += p.created(row)
	}
	return total
}

// created returns how many Jobs were seen since the scene began.
func (p *performance) created(row board.Row) int {
	return row.Created - find(p.before, row.ScaledJob.Name).Created
}

func (p *performance) result(name string) Result {
	rows := p.rows()
	var reactions []time.Duration
	for i, row := range rows {
		reactions = append(reactions, row.Reactions[len(p.before[i].Reactions):]...)
	}
	slices.Sort(reactions)
	return Result{
		Name: name, Messages: p.messages, Due: p.totalDue(), Created: p.totalCreated(rows),
		Reactions: reactions, Took: time.Since(p.began), FailedChecks: p.failed,
	}
}

// find returns the row of a ScaledJob.
func find(rows []board.Row, name string) board.Row {
	i := slices.IndexFunc(rows, func(row board.Row) bool { return row.ScaledJob.Name == name })
	return rows[i]
}
