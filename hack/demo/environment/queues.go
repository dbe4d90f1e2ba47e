// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
)

// Push pushes messages to the queue of a ScaledJob.
func (e *Environment) Push(ctx context.Context, scaledJob string, messages int) error {
	key, err := e.key(scaledJob)
	if err != nil {
		return err
	}
	if err := e.Redis.push(ctx, key, messages); err != nil {
		return fmt.Errorf("pushing %d messages to %s: %w", messages, key, err)
	}
	return nil
}

// Depth returns how many messages are in the queue of a ScaledJob.
func (e *Environment) Depth(ctx context.Context, scaledJob string) (int64, error) {
	key, err := e.key(scaledJob)
	if err != nil {
		return 0, err
	}
	depth, err := e.Redis.depth(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("reading the depth of %s: %w", key, err)
	}
	return depth, nil
}

func (e *Environment) key(name string) (string, error) {
	for _, scaledJob := range e.ScaledJobs {
		if scaledJob.Name == name {
			return scaledJob.Spec.QueueName, nil
		}
	}
	return "", fmt.Errorf("there is no ScaledJob %s", name)
}
