// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"math"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// refill creates a Job for each that finishes. It neither asks whether there is a message for it nor takes away what
// has finished.
func refill(ctx context.Context, kube client.WithWatch, sj *scaledjobv1.ScaledJob) error {
	return refillUpTo(ctx, kube, sj, math.MaxInt64)
}

// refillUpTo creates no more Jobs than so many.
func refillUpTo(ctx context.Context, kube client.WithWatch, sj *scaledjobv1.ScaledJob, most int64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	events, err := kube.Watch(ctx, &batchv1.JobList{},
		client.InNamespace(sj.Namespace), client.MatchingLabels{scaledjobv1.LabelScaledJob: sj.Name})
	if err != nil {
		return err
	}
	create := func(ordinal int64) {
		job := jobs.Build(sj, templateHash, ordinal, 0)
		group.Go(func() error { return kube.Create(ctx, job) })
	}
	ordinal := min(most, int64(sj.Spec.MaxReplicasOrDefault()))
	for i := range ordinal {
		create(i + 1)
	}
	for event := range events.ResultChan() {
		job, ok := event.Object.(*batchv1.Job)
		if !ok || ordinal == most || event.Type != watch.Modified || !jobs.Finished(job) {
			continue
		}
		ordinal++
		create(ordinal)
	}
	return errors.Join(group.Wait(), errors.New("the watch of Jobs has ended"))
}
