// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sjtest

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// churnWorkers is how many objects are created or deleted at the same time.
const churnWorkers = 4

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
func (c *Churn) Gone() int { return int(c.gone.Load()) }

// Run has objects come and go until ctx ends or all have come, and returns when all are gone.
func (c *Churn) Run(ctx context.Context) error {
	var group errgroup.Group
	for first := range churnWorkers {
		group.Go(func() error { return c.work(ctx, first) })
	}
	return group.Wait()
}

// work has every churnWorkers-th object come and go.
func (c *Churn) work(ctx context.Context, first int) error {
	started, last := time.Now(), context.WithoutCancel(ctx)
	var present []int
	for number := first; c.Total == 0 || number < c.Total; number += churnWorkers {
		if Pause(ctx, time.Until(started.Add(time.Duration(number)*c.Interval))) != nil {
			break
		}
		// A request that was sent is not given up: nobody would know whether the object is there.
		if err := c.Create(last, number); err != nil {
			return err
		}
		if present = append(present, number); len(present)*churnWorkers > c.Present {
			if err := c.remove(last, present[:1]); err != nil {
				return err
			}
			present = present[1:]
		}
	}
	return c.remove(last, present)
}

func (c *Churn) remove(ctx context.Context, numbers []int) error {
	for _, number := range numbers {
		if err := c.Delete(ctx, number); err != nil {
			return err
		}
		c.gone.Add(1)
	}
	return nil
}
