// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

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
	// SamplePath is the path of the sample in the repository.
	SamplePath = "config/samples/image-processor.yaml"
	// namespace is the namespace of the ScaledJobs.
	namespace = "default"
)

// scaledJobs returns the sample and two similar ScaledJobs with other queues, all for this Redis. The keys of the
// queues begin with keyPrefix.
func scaledJobs(redisAddress, keyPrefix string) ([]*scaledjobv1.ScaledJob, error) {
	images, err := readSample()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", SamplePath, err)
	}
	all := []*scaledjobv1.ScaledJob{
		images,
		like(images, Emails, "email-queue", 5, 10),
		like(images, Reports, "report-queue", 1, 5),
	}
	for _, scaledJob := range all {
		scaledJob.Namespace = namespace
		scaledJob.Spec.RedisAddress = redisAddress
		scaledJob.Spec.QueueName = keyPrefix + scaledJob.Spec.QueueName
	}
	return all, nil
}

func readSample() (*scaledjobv1.ScaledJob, error) {
	content, err := os.ReadFile(SamplePath)
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
