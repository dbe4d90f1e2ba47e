// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package scene has the scenes of the demo and their checks.
package scene

import (
	"context"
	"errors"
	"fmt"
	"time"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/environment"
	testscene "miracle.dev/scaledjob-operator/test/kit/scene"
)

// Scene is one scene of the demo.
type Scene struct {
	Name string
	// Story says what happens and why that matters.
	Story string

	play    func(context.Context, *performance) error
	spoiler string // why it is not played on the user's Redis; empty if it can be
}

// All returns all scenes, in order.
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
			Name:    "flags",
			Story:   "Redis stops announcing changes: the operator has Redis track the keys instead, and Jobs still follow within milliseconds.",
			play:    flags,
			spoiler: "the demo does not configure a Redis of yours",
		},
		{
			Name:    "redis",
			Story:   "Redis dies and comes back: an unreachable Redis is no empty queue, so no Job is killed, and work goes on by itself.",
			play:    outage,
			spoiler: "the demo does not kill a Redis of yours",
		},
		{
			Name:  "operator",
			Story: "The operator is killed in the middle of a burst and started again: there are as many Jobs as are due, none twice.",
			play:  crash,
		},
	}
}

// Stage has what the scenes need.
type Stage struct {
	Environment *environment.Environment
	Board       *board.Board
	// Interlude is how long the end of a scene stays on the screen.
	Interlude time.Duration
}

// Play plays the scenes one after the other, except for those that are not allowed on the user's Redis. Failed checks
// are in the Result; an error means that the demo could not continue.
func (s Stage) Play(ctx context.Context, scenes []Scene) ([]Result, error) {
	playable, results := s.choose(scenes)
	if len(playable) == 0 {
		return results, errors.New("none of the scenes can be played here")
	}
	if err := s.tellOfSilence(ctx); err != nil {
		return results, err
	}
	for i, scene := range playable {
		s.Board.Begin(board.Title{Name: scene.Name, Story: scene.Story, Number: i + 1, Of: len(playable)})
		result, err := s.perform(ctx, scene)
		if err != nil {
			return results, fmt.Errorf("scene %s: %w", scene.Name, err)
		}
		results = append(results, result)
		if err := testscene.Pause(ctx, s.Interlude); err != nil {
			return results, err
		}
	}
	return results, nil
}

// choose returns the scenes that can be played, and a Result for each of the others.
func (s Stage) choose(scenes []Scene) (playable []Scene, leftOut []Result) {
	foreign := s.Environment.Redis.Emulated == nil
	for _, scene := range scenes {
		if foreign && scene.spoiler != "" {
			s.Board.Say(board.Done, "scene %s is left out: %s", scene.Name, scene.spoiler)
			leftOut = append(leftOut, Result{Name: scene.Name, LeftOut: scene.spoiler})
			continue
		}
		playable = append(playable, scene)
	}
	return playable, leftOut
}

func (s Stage) perform(ctx context.Context, scene Scene) (Result, error) {
	p := &performance{Stage: s}
	began, polled := time.Now(), s.polled()
	err := scene.play(ctx, p)
	if err == nil {
		err = p.finish(ctx)
	}
	result := sumUp(s.rows())
	result.Name, result.Took, result.FailedChecks = scene.Name, time.Since(began), p.failed
	result.Polled = polled && s.polled()
	return result, err
}
