// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package sample makes the ScaledJobs of the demo: the one the repository ships
// and two like it on queues of their own.
package sample

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// The names of the ScaledJobs.
const (
	Images  = "image-processor"
	Emails  = "email-sender"
	Reports = "report-builder"
)

const (
	// Path is that of the shipped sample, from the root of the repository.
	Path = "config/samples/image-processor.yaml"
	// Namespace is where the ScaledJobs are created.
	Namespace = "default"
)

// ScaledJobs returns the ScaledJobs for that Redis. The keys of their queues
// begin with keyPrefix.
func ScaledJobs(redisAddress, keyPrefix string) ([]*scaledjobv1.ScaledJob, error) {
	images, err := read()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", Path, err)
	}
	scaledJobs := []*scaledjobv1.ScaledJob{
		images,
		like(images, Emails, "email-queue", 5, 10),
		like(images, Reports, "report-queue", 1, 5),
	}
	for _, scaledJob := range scaledJobs {
		scaledJob.Namespace = Namespace
		scaledJob.Spec.RedisAddress = redisAddress
		scaledJob.Spec.QueueName = keyPrefix + scaledJob.Spec.QueueName
	}
	return scaledJobs, nil
}

func read() (*scaledjobv1.ScaledJob, error) {
	content, err := os.ReadFile(Path)
	if err != nil {
		return nil, err
	}
	var scaledJob scaledjobv1.ScaledJob
	return &scaledJob, yaml.UnmarshalStrict(content, &scaledJob)
}

func like(other *scaledjobv1.ScaledJob, name, queue string, threshold int64, maxReplicas int32) *scaledjobv1.ScaledJob {
	scaledJob := other.DeepCopy()
	scaledJob.Name = name
	scaledJob.Spec.QueueName = queue
	scaledJob.Spec.Threshold = threshold
	scaledJob.Spec.MaxReplicas = &maxReplicas
	return scaledJob
}
