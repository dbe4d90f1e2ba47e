// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command loop is the minimal loop that the operator is compared with: the least that turns messages into Jobs, over
// open connections. It counts in variables what it created, and recovers from nothing. No operator can be faster by
// more than chance.
//
//	loop grow  KUBECONFIG NAMESPACE PREFIX
//	loop drain KUBECONFIG NAMESPACE SCALEDJOB
//
// For each ScaledJob of the namespace whose name begins with the prefix, grow reads the depth after each notification,
// and creates the missing Jobs, 16 at once. When there are messages, drain creates one Job for each of them, at most
// maxReplicas at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

const (
	// parallel is how many Jobs are created at the same time.
	parallel = 16
	// channelPrefix is what the channels of all keys begin with.
	channelPrefix = "__keyspace@0__:"
	// templateHash stands for the hash of the template, which nobody compares here.
	templateHash = "template"
)

func main() {
	err := run(ctrl.SetupSignalHandler(), os.Args[1], os.Args[2], client.ObjectKey{Namespace: os.Args[3], Name: os.Args[4]})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// run does the work until something goes wrong, and returns that.
func run(ctx context.Context, work, kubeconfig string, key client.ObjectKey) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	kube, err := operator.NewClient(config)
	if err != nil {
		return err
	}
	if work == "grow" {
		return growAll(ctx, kube, key.Namespace, key.Name)
	}
	var sj scaledjobv1.ScaledJob
	if err := kube.Get(ctx, key, &sj); err != nil {
		return err
	}
	return drain(ctx, kube, &sj)
}

// growAll has one subscription for all ScaledJobs.
func growAll(ctx context.Context, kube client.Client, namespace, prefix string) error {
	var list scaledjobv1.ScaledJobList
	if err := kube.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	growth := map[string]chan struct{}{}
	var queue *redis.Client
	for i := range list.Items {
		sj := &list.Items[i]
		if !strings.HasPrefix(sj.Name, prefix) {
			continue
		}
		if queue == nil {
			queue = redis.NewClient(&redis.Options{Addr: sj.Spec.RedisAddress})
		}
		grown := make(chan struct{}, 1)
		growth[channelPrefix+sj.Spec.QueueName] = grown
		group.Go(func() error { return grow(ctx, kube, queue, sj, grown) })
	}
	if queue == nil {
		return errors.New("there is no ScaledJob")
	}
	group.Go(func() error { return dispatch(ctx, queue, growth) })
	return group.Wait()
}

// dispatch reports each notification, and each confirmed subscription.
func dispatch(ctx context.Context, queue *redis.Client, growth map[string]chan struct{}) error {
	events := queue.Subscribe(ctx)
	for channel := range growth {
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
		case growth[channel] <- struct{}{}:
		default: // It reads the depth later anyway.
		}
	}
}

// grow creates a Job for each message.
func grow(ctx context.Context, kube client.Client, queue *redis.Client, sj *scaledjobv1.ScaledJob, grown <-chan struct{}) error {
	for ordinal, created := int64(0), int64(0); ; {
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
		depth, err := queue.LLen(ctx, sj.Spec.QueueName).Result()
		if err != nil {
			return err
		}
		var group errgroup.Group
		group.SetLimit(parallel)
		for ; created < depth; created++ {
			ordinal++
			job := jobs.Build(sj, templateHash, ordinal, 0)
			group.Go(func() error { return kube.Create(ctx, job) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		created = depth // messages that were taken away take their Jobs with them
	}
}

// drain waits for messages, which all come before its first Job ends.
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
			return replace(ctx, kube, sj, depth)
		}
	}
}

// replace creates maxReplicas Jobs, and another one for each that finishes, until it has created this number of Jobs.
func replace(ctx context.Context, kube client.WithWatch, sj *scaledjobv1.ScaledJob, count int64) error {
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
	ordinal := min(count, int64(sj.Spec.MaxReplicasOrDefault()))
	for i := range ordinal {
		create(i + 1)
	}
	for event := range events.ResultChan() {
		job, ok := event.Object.(*batchv1.Job)
		if !ok || ordinal == count || event.Type != watch.Modified || !jobs.Finished(job) {
			continue
		}
		ordinal++
		create(ordinal)
	}
	return errors.Join(group.Wait(), errors.New("the watch of Jobs has ended"))
}
