// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/redis/go-redis/v9"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// drain waits until there are messages, and then creates a Job for each of them, at most maxReplicas at once. All come by
// one command.
func drain(ctx context.Context, kube client.WithWatch, sj *scaledjobv1.ScaledJob) error {
	queue := redis.NewClient(&redis.Options{Addr: sj.Spec.RedisAddress})
	events := queue.Subscribe(ctx, channelPrefix+sj.Spec.QueueName)
	for {
		if _, err := events.Receive(ctx); err != nil {
			return err
		}
		depth, err := queue.LLen(ctx, sj.Spec.QueueName).Result()
		if err != nil {
			return err
		}
		if depth > 0 {
			return refillUpTo(ctx, kube, sj, depth)
		}
	}
}
