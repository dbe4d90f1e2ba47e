// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// Between two upheavals there is so much time.
	leastPeace, mostPeace = 5 * time.Second, 20 * time.Second
	// longestAbsence bounds for how long there is no operator.
	longestAbsence = 3 * time.Second
)

// upheaval is a fault of what all queues have in common.
type upheaval struct {
	name   string
	strike func(*soak, context.Context, *rand.Rand) error
}

var apiServerRestarts = upheaval{"the API server was restarted", (*soak).restartAPIServer}

func upheavals() []upheaval {
	return []upheaval{
		apiServerRestarts,
		{"the operator was killed", func(s *soak, ctx context.Context, random *rand.Rand) error {
			return s.replaceOperator(ctx, random, (*operator.Operator).Kill)
		}},
		{"the operator was stopped", func(s *soak, ctx context.Context, random *rand.Rand) error {
			return s.replaceOperator(ctx, random, func(o *operator.Operator) error { return o.Stop(ctx) })
		}},
	}
}

// upheave has one of these strike after the other until ctx ends.
func (s *soak) upheave(ctx context.Context, random *rand.Rand, all []upheaval) error {
	return inTurn(ctx, random, leastPeace, mostPeace, all, func(next upheaval) error {
		// What has begun comes to its end.
		struck, cancel := context.WithTimeout(context.WithoutCancel(ctx), strikeTimeout)
		defer cancel()
		if err := next.strike(s, struck, random); err != nil {
			return fmt.Errorf("playing the fault %q: %w", next.name, err)
		}
		s.faults.Add(1)
		s.report("%s", next.name)
		return nil
	})
}

// inTurn plays one after the other with pauses before each until ctx ends, all in an order of chance, and then all
// again.
func inTurn[T any](ctx context.Context, random *rand.Rand, least, most time.Duration, all []T, play func(T) error) error {
	for order := []int(nil); sjtest.Pause(ctx, between(random, least, most)) == nil; order = order[1:] {
		if len(order) == 0 {
			order = random.Perm(len(all))
		}
		if err := play(all[order[0]]); err != nil {
			return err
		}
	}
	return nil
}

// replaceOperator has the operator end, and another begin a little later.
func (s *soak) replaceOperator(ctx context.Context, random *rand.Rand, end func(*operator.Operator) error) error {
	s.operating.Lock()
	defer s.operating.Unlock()
	if err := end(s.setting.Operator); err != nil {
		return err
	}
	if err := sjtest.Pause(ctx, between(random, 0, longestAbsence)); err != nil {
		return err
	}
	next, err := operator.Start(ctx, operator.Options{Cluster: s.setting.Control, Args: []string{"--polling-fallback-interval=0"}})
	if err == nil {
		s.setting.Operator = next
	}
	return err
}

// restartAPIServer leaves the operator alone with it.
func (s *soak) restartAPIServer(ctx context.Context, _ *rand.Rand) error {
	s.api.away.Lock()
	defer s.api.away.Unlock()
	return s.setting.Control.RestartAPIServer(ctx)
}

// api is the way of all but the operator and the watches of Jobs to the API server.
type api struct {
	client.Client

	// away is held while the API server is, and held for reading by those who need
	// it: that it refuses them is not the question here.
	away sync.RWMutex
}

// between draws a duration of at least the one and less than the other.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
