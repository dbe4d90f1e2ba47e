// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// fanOut does what grow does for all ScaledJobs of a namespace whose names begin with the prefix.
func fanOut(ctx context.Context, kube client.Client, namespace, prefix string) error {
	var list scaledjobv1.ScaledJobList
	if err := kube.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	told := map[string]chan struct{}{}
	var queue *redis.Client
	for i := range list.Items {
		sj := &list.Items[i]
		if !strings.HasPrefix(sj.Name, prefix) {
			continue
		}
		if queue == nil {
			queue = redis.NewClient(&redis.Options{Addr: sj.Spec.RedisAddress})
		}
		growth := make(chan struct{}, 1)
		told[channelPrefix+sj.Spec.QueueName] = growth
		group.Go(func() error {
			return growOn(ctx, kube, queue, sj, func() error {
				select {
				case <-growth:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	}
	if queue == nil {
		return errors.New("there is no ScaledJob")
	}
	group.Go(func() error { return dispatch(ctx, queue, told) })
	return group.Wait()
}

// dispatch tells of each notification, and of each confirmed subscription.
func dispatch(ctx context.Context, queue *redis.Client, told map[string]chan struct{}) error {
	events := queue.Subscribe(ctx)
	for channel := range told {
		if err := events.Subscribe(ctx, channel); err != nil {
			return err
		}
	}
	for {
		event, err := events.Receive(ctx)
		if err != nil {
			return err
		}
		var channel string
		switch event := event.(type) {
		case *redis.Subscription:
			channel = event.Channel
		case *redis.Message:
			channel = event.Channel
		}
		select {
		case told[channel] <- struct{}{}:
		default: // It will look all the same.
		}
	}
}
