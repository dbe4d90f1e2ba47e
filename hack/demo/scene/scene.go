// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package scene holds what happens in the demo, scene by scene, and the checks
// of what each of them has promised.
package scene

import (
	"context"
	"errors"
	"fmt"
	"time"

	"miracle.dev/scaledjob-operator/hack/demo/board"
)

// Stage is what scenes play on.
type Stage struct {
	Board  *board.Board
	Queues Queues
	// Operator is the operator.
	Operator Process
	// Redis is nil if it must not be killed.
	Redis Process
	// Events is nil if Redis' notifications can't be switched.
	Events Events
}

// Queues are those of the ScaledJobs, by whose names they go.
type Queues interface {
	Push(ctx context.Context, scaledJob string, messages int) error
	Depth(ctx context.Context, scaledJob string) (int64, error)
}

// Process can be killed. Start starts it again.
type Process interface {
	Kill() error
	Start(ctx context.Context) error
}

// Events switches the notifications of Redis off and on.
type Events interface {
	Switch(ctx context.Context, on bool) error
}

// Scene is a part of the demo.
type Scene struct {
	Name string
	// Story says what will happen and why it matters.
	Story string

	play  func(context.Context, *performance) error
	lacks func(Stage) string // why it can't be played; nil if it always can
}

// All returns the scenes in their order.
func All() []Scene {
	return []Scene{
		{
			Name:  "burst",
			Story: "Hundreds of messages arrive at once: the Jobs that are due appear within milliseconds, never more than max at a time.",
			play:  burst,
		},
		{
			Name:  "trickle",
			Story: "Single messages arrive now and then: each gets its Job within milliseconds, where polling would take seconds.",
			play:  trickle,
		},
		{
			Name:  "flags",
			Story: "Redis stops announcing changes: the operator notices, reads the queues every few seconds, and no message is forgotten.",
			play:  flags,
			lacks: func(stage Stage) string {
				if stage.Events == nil {
					return "this Redis forbids CONFIG; unless it announces changes already, Jobs take seconds"
				}
				return ""
			},
		},
		{
			Name:  "redis",
			Story: "Redis dies and comes back: an unreachable Redis is no empty queue, so no Job is killed, and work goes on by itself.",
			play:  outage,
			lacks: func(stage Stage) string {
				if stage.Redis == nil {
					return "the demo does not kill a Redis of yours"
				}
				return ""
			},
		},
		{
			Name:  "operator",
			Story: "The operator is killed in the middle of a burst and started again: there are as many Jobs as are due, none twice.",
			play:  crash,
		},
	}
}

// whyNot says why the scene can't be played there, or "".
func (s Scene) whyNot(stage Stage) string {
	if s.lacks == nil {
		return ""
	}
	return s.lacks(stage)
}

// Result is what came of a scene.
type Result struct {
	Name         string
	LeftOut      string          // why; all else is empty then
	Messages     int             // pushed
	Due, Created int             // Jobs
	Reactions    []time.Duration // from a push to the first sight of a Job of it, ascending
	Took         time.Duration
	FailedChecks []string
}

// Play plays the scenes one after the other, but for those that can't be played
// there, with a pause after each. A check that failed is in the Result; an error
// means that it could not go on.
func Play(ctx context.Context, stage Stage, scenes []Scene, interlude time.Duration) ([]Result, error) {
	playable, results := choose(stage, scenes)
	if len(playable) == 0 {
		return results, errors.New("none of the scenes can be played here")
	}
	for i, scene := range playable {
		stage.Board.Begin(board.Title{Name: scene.Name, Story: scene.Story, Number: i + 1, Of: len(playable)})
		result, err := scene.perform(ctx, stage)
		if err != nil {
			return results, fmt.Errorf("scene %s: %w", scene.Name, err)
		}
		results = append(results, result)
		if err := pause(ctx, interlude); err != nil {
			return results, err
		}
	}
	return results, nil
}

// choose returns the scenes that can be played, and a Result for each other one.
func choose(stage Stage, scenes []Scene) (playable []Scene, leftOut []Result) {
	for _, scene := range scenes {
		if why := scene.whyNot(stage); why != "" {
			stage.Board.Say(board.Done, "scene %s is left out: %s", scene.Name, why)
			leftOut = append(leftOut, Result{Name: scene.Name, LeftOut: why})
			continue
		}
		playable = append(playable, scene)
	}
	return playable, leftOut
}

func (s Scene) perform(ctx context.Context, stage Stage) (Result, error) {
	p := newPerformance(stage)
	err := s.play(ctx, p)
	if err == nil {
		err = p.finish(ctx)
	}
	return p.result(s.Name), err
}
