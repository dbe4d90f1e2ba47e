// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
)

// sampleInterval is the time between two reads of the depths.
const sampleInterval = 500 * time.Millisecond

// Watch updates the board and runs the workers until ctx ends, in goroutines of the group. It is a client of its own
// and shares nothing with the operator. It returns when the watches run. The group fails if the operator ends by
// itself.
func (e *Environment) Watch(ctx context.Context, group *errgroup.Group, onto *board.Board) error {
	group.Go(func() error { return e.Operator.await(ctx) })
	group.Go(func() error { return e.keepSampling(ctx, onto) })
	if err := e.watchCluster(ctx, group, onto); err != nil {
		return fmt.Errorf("watching the cluster: %w", err)
	}
	return nil
}

func (e *Environment) watchCluster(ctx context.Context, group *errgroup.Group, onto *board.Board) error {
	watches, err := cache.New(e.cluster.Config(), cache.Options{
		Scheme:            e.kube.Scheme(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
	})
	if err != nil {
		return err
	}
	workers := newWorkers(e.kube, e.Redis, e.ScaledJobs)
	group.Go(func() error { return watches.Start(ctx) })
	return errors.Join(
		watch(ctx, watches, &scaledjobv1.ScaledJob{}, onto.NoteScaledJob, nil),
		watch(ctx, watches, &batchv1.Job{}, func(job *batchv1.Job) { onto.NoteJob(job, time.Now()) }, onto.NoteDeleted),
		watch(ctx, watches, &corev1.Pod{}, func(pod *corev1.Pod) { workers.start(ctx, group, pod) }, nil),
	)
}

// watch calls note for all objects of a kind, one at a time, and noteDeleted for deleted ones unless it is nil. It
// returns when the watch runs.
func watch[T client.Object](ctx context.Context, watches cache.Cache, kind T, note, noteDeleted func(T)) error {
	informer, err := watches.GetInformer(ctx, kind)
	if err != nil {
		return err
	}
	typed := func(note func(T)) func(any) {
		return func(object any) {
			if gone, is := object.(toolscache.DeletedFinalStateUnknown); is {
				object = gone.Obj
			}
			if object, is := object.(T); is && note != nil {
				note(object)
			}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    typed(note),
		UpdateFunc: func(_, object any) { typed(note)(object) },
		DeleteFunc: typed(noteDeleted),
	})
	return err
}

// keepSampling reads all depths periodically. If a depth cannot be read, the history has a gap.
func (e *Environment) keepSampling(ctx context.Context, onto *board.Board) error {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		_ = e.SampleDepths(ctx, onto)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// SampleDepths adds the depths of all queues to the board. If one cannot be read, it adds [board.Unknown] and returns
// an error.
func (e *Environment) SampleDepths(ctx context.Context, onto *board.Board) error {
	var errs []error
	for _, scaledJob := range e.ScaledJobs {
		depth, err := e.Redis.depth(ctx, scaledJob.Spec.QueueName)
		if err != nil {
			depth = board.Unknown
			errs = append(errs, err)
		}
		onto.NoteDepth(scaledJob.Name, depth)
	}
	return errors.Join(errs...)
}
