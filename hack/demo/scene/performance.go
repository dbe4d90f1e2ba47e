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

// performance is a scene that is being played.
type performance struct {
	Stage

	failed []string // checks
}

// load is a number of messages for the queue of a ScaledJob.
type load struct {
	scaledJob string
	messages  int
}

func (p *performance) say(format string, args ...any) {
	p.Board.Say(board.Done, format, args...)
}

// push pushes messages to empty queues.
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

// pushOne waits until a queue is empty, pushes a message, and shows how long its Job took to appear.
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
		p.say("1 message for %s: its Job after %s", scaledJob, view.Duration(reaction))
	}
	return err
}

// send pushes messages to an empty queue.
func (p *performance) send(ctx context.Context, load load) error {
	queue := find(p.rows(), load.scaledJob).ScaledJob.Spec.QueueName
	p.Board.NotePush(load.scaledJob, load.messages, time.Now())
	return p.Environment.Redis.Push(ctx, queue, load.messages)
}
