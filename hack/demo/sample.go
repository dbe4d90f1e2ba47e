// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	samplePath = "config/samples/image-processor.yaml"
	namespace  = "default"
)

// readSample reads the sample that the repository ships, with another Redis.
func readSample(redisAddress string) (*scaledjobv1.ScaledJob, error) {
	content, err := os.ReadFile(samplePath)
	if err != nil {
		return nil, fmt.Errorf("reading the sample: %w", err)
	}
	var sample scaledjobv1.ScaledJob
	if err := yaml.UnmarshalStrict(content, &sample); err != nil {
		return nil, fmt.Errorf("reading %s: %w", samplePath, err)
	}
	sample.Namespace = namespace
	sample.Spec.RedisAddress = redisAddress
	return &sample, nil
}

// createReady creates the ScaledJob and returns when the operator calls it
// ready.
func createReady(ctx context.Context, c client.Client, scaledJob *scaledjobv1.ScaledJob) error {
	const interval = 50 * time.Millisecond
	if err := c.Create(ctx, scaledJob); err != nil {
		return fmt.Errorf("creating the ScaledJob: %w", err)
	}
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(scaledJob), scaledJob)
		return apimeta.IsStatusConditionTrue(scaledJob.Status.Conditions, scaledjobv1.ConditionReady), err
	})
	if err != nil {
		return fmt.Errorf("waiting until the ScaledJob is ready: %w", err)
	}
	return nil
}
