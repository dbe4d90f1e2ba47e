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
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// performance is a scene that is being played. After an error it does, shows and checks nothing more.
type performance struct {
	Stage

	ctx    context.Context
	failed []string // checks
	err    error
}

// do takes a step of the scene.
func (p *performance) do(step func(context.Context) error) {
	if p.err == nil {
		p.err = step(p.ctx)
	}
}

// load is a number of messages for the queue of a ScaledJob.
type load struct {
	scaledJob string
	messages  int
}

func (p *performance) say(format string, args ...any) {
	if p.err == nil {
		p.Board.Say(board.Done, format, args...)
	}
}

func (p *performance) pause(duration time.Duration) {
	p.do(func(ctx context.Context) error { return sjtest.Pause(ctx, duration) })
}

// push pushes messages to empty queues.
func (p *performance) push(loads ...load) {
	var pushed []string
	for _, load := range loads {
		p.send(load)
		pushed = append(pushed, fmt.Sprintf("%s %d", load.scaledJob, load.messages))
	}
	p.say("pushed: %s", strings.Join(pushed, ", "))
}

// pushOne waits until a queue is empty, pushes a message, and shows how long its Job took to appear.
func (p *performance) pushOne(scaledJob string) {
	p.await("the queue of "+scaledJob+" is worked off", func(rows []board.Row) bool {
		return find(rows, scaledJob).Unfinished == 0
	})
	p.send(load{scaledJob, 1})
	p.say("1 message for %s: its Job after %s", scaledJob, view.Duration(p.reaction(scaledJob)))
}

// send pushes messages to an empty queue.
func (p *performance) send(load load) {
	p.do(func(ctx context.Context) error {
		queue := find(p.rows(), load.scaledJob).ScaledJob.Spec.QueueName
		p.Board.NotePush(load.scaledJob, load.messages, time.Now())
		return p.Environment.Redis.Push(ctx, queue, load.messages)
	})
}
