// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"time"
)

// pollInterval is how often a condition is asked for.
const pollInterval = 20 * time.Millisecond

// Pause returns nil after this time, or the cause of the end of ctx as soon as it ends.
func Pause(ctx context.Context, duration time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Await returns nil once condition does. When ctx ends before that, it returns the cause and the last error of
// condition.
func Await(ctx context.Context, condition func(context.Context) error) error {
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if ended := Pause(ctx, pollInterval); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}
