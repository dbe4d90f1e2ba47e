// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const pollInterval = 20 * time.Millisecond

// poll asks until condition answers nil or ctx ends, and returns the last answer with the reason why ctx ended.
func poll(ctx context.Context, condition func(context.Context) error) error {
	var answer error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		answer = condition(ctx)
		return answer == nil, nil
	})
	return errors.Join(err, answer)
}
