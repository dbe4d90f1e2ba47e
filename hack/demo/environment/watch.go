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
	"miracle.dev/scaledjob-operator/hack/demo/sample"
)

// SampleInterval is how often the depths are read for the history.
const SampleInterval = 500 * time.Millisecond

// Watch has the board filled and the Pods worked until ctx ends, as a client
// that shares nothing with the operator. It calls ready when the watches run.
// It fails if the operator ends by itself.
func (e *Environment) Watch(ctx context.Context, onto *board.Board, ready func()) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.Operator.await(ctx) })
	group.Go(func() error { return e.sampleDepths(ctx, onto) })
	group.Go(func() error {
		if err := e.watchCluster(ctx, group, onto); err != nil {
			return fmt.Errorf("watching the cluster: %w", err)
		}
		ready()
		return nil
	})
	return group.Wait()
}

func (e *Environment) watchCluster(ctx context.Context, group *errgroup.Group, onto *board.Board) error {
	watches, err := cache.New(e.cluster.Config(), cache.Options{
		Scheme:            e.kube.Scheme(),
		DefaultNamespaces: map[string]cache.Config{sample.Namespace: {}},
	})
	if err != nil {
		return err
	}
	workers := newWorkers(e.kube, e.Redis, e.ScaledJobs)
	group.Go(func() error { return watches.Start(ctx) })
	return errors.Join(
		handle(ctx, watches, &scaledjobv1.ScaledJob{}, scaledJobHandler(onto)),
		handle(ctx, watches, &batchv1.Job{}, jobHandler(onto)),
		handle(ctx, watches, &corev1.Pod{}, workers.handler(ctx, group)),
	)
}

// handle watches objects of a kind and returns when the watch runs.
func handle(ctx context.Context, watches cache.Cache, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := watches.GetInformer(ctx, kind)
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(handler)
	return err
}

func scaledJobHandler(onto *board.Board) toolscache.ResourceEventHandler {
	note := func(object any) {
		if scaledJob, is := object.(*scaledjobv1.ScaledJob); is {
			onto.NoteScaledJob(scaledJob)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, object any) { note(object) },
	}
}

func jobHandler(onto *board.Board) toolscache.ResourceEventHandler {
	note := func(object any) {
		if job, is := object.(*batchv1.Job); is {
			onto.NoteJob(job, time.Now())
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, object any) { note(object) },
		DeleteFunc: func(object any) {
			if gone, is := object.(toolscache.DeletedFinalStateUnknown); is {
				object = gone.Obj
			}
			if job, is := object.(*batchv1.Job); is {
				onto.NoteDeleted(job)
			}
		},
	}
}

// sampleDepths reads all depths every now and then. A depth that can't be read
// is a gap in the history.
func (e *Environment) sampleDepths(ctx context.Context, onto *board.Board) error {
	ticker := time.NewTicker(SampleInterval)
	defer ticker.Stop()
	for {
		for _, scaledJob := range e.ScaledJobs {
			depth, err := e.Redis.depth(ctx, scaledJob.Spec.QueueName)
			if err != nil {
				depth = board.Unknown
			}
			onto.NoteDepth(scaledJob.Name, depth)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
