// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sjtest

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// passingAtOnce is how many of those that come and go are created or deleted at the same time.
const passingAtOnce = 4

// Churn has objects come and go.
type Churn struct {
	// Create creates the object of this number, and Delete deletes it.
	Create, Delete func(ctx context.Context, number int) error
	// Present is how many objects there are at most: each goes when this many more have come.
	Present int
	// Total is how many come. 0 means no end.
	Total int
	// Interval is the time between two that come. 0 means as fast as the API server allows.
	Interval time.Duration

	gone atomic.Int64
}

// Gone returns how many objects have come and gone.
func (p *Churn) Gone() int { return int(p.gone.Load()) }

// Run has objects come and go until ctx ends or all have come, and returns when all are gone.
func (p *Churn) Run(ctx context.Context) error {
	var group errgroup.Group
	for first := range passingAtOnce {
		group.Go(func() error { return p.pass(ctx, first) })
	}
	return group.Wait()
}

// pass has every passingAtOnce-th object come and go.
func (p *Churn) pass(ctx context.Context, first int) error {
	started, last := time.Now(), context.WithoutCancel(ctx)
	var present []int
	for number := first; p.Total == 0 || number < p.Total; number += passingAtOnce {
		if Pause(ctx, time.Until(started.Add(time.Duration(number)*p.Interval))) != nil {
			break
		}
		// A request that was sent is not given up: nobody would know whether the object is there.
		if err := p.Create(last, number); err != nil {
			return err
		}
		if present = append(present, number); len(present)*passingAtOnce > p.Present {
			if err := p.remove(last, present[:1]); err != nil {
				return err
			}
			present = present[1:]
		}
	}
	return p.remove(last, present)
}

func (p *Churn) remove(ctx context.Context, numbers []int) error {
	for _, number := range numbers {
		if err := p.Delete(ctx, number); err != nil {
			return err
		}
		p.gone.Add(1)
	}
	return nil
}
