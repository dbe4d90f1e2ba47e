// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package pause lets time pass for tests, measurements and the demo, which can be told to stop meanwhile.
package pause

import (
	"context"
	"time"
)

// For returns nil after this time, or why ctx ended as soon as it does.
func For(ctx context.Context, duration time.Duration) error {
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
