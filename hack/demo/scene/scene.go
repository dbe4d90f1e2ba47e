// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package scene has the scenes of the demo and their checks.
package scene

import (
	"context"
	"fmt"
	"time"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/environment"
	"miracle.dev/scaledjob-operator/hack/demo/script"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// plays are the scenes by their names.
var plays = map[string]func(*performance){
	"burst":    burst,
	"trickle":  trickle,
	"flags":    flags,
	"redis":    outage,
	"operator": crash,
}

// Stage has what the scenes need.
type Stage struct {
	Environment *environment.Environment
	Board       *board.Board
	// Interlude is how long the end of a scene stays on the screen.
	Interlude time.Duration
}

// Play plays the scenes one after the other. Failed checks are in the Result; an error means that the demo could not
// continue.
func (s Stage) Play(ctx context.Context, scenes []script.Scene) ([]Result, error) {
	if err := s.explainSilence(ctx); err != nil {
		return nil, err
	}
	var results []Result
	for i, scene := range scenes {
		s.Board.Begin(board.Title{Name: scene.Name, Story: scene.Story, Number: i + 1, Of: len(scenes)})
		result, err := s.perform(ctx, scene.Name)
		if err != nil {
			return results, fmt.Errorf("scene %s: %w", scene.Name, err)
		}
		results = append(results, result)
		if i == 0 {
			s.explainPolling()
		}
		if err := sjtest.Pause(ctx, s.Interlude); err != nil {
			return results, err
		}
	}
	return results, nil
}

func (s Stage) perform(ctx context.Context, name string) (Result, error) {
	p := &performance{Stage: s, ctx: ctx}
	began, polled := time.Now(), s.polled()
	plays[name](p)
	p.finish()
	result := sumUp(s.rows())
	result.Name, result.Took, result.FailedChecks = name, time.Since(began), p.failed
	result.Polled = polled && s.polled()
	return result, p.err
}
