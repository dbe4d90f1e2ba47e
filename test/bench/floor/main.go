// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command floor does for one ScaledJob the least that turns what happens into a Job, over open connections. It counts
// in variables what it created and survives nothing. No operator can be faster by more than chance.
//
//	floor growth KUBECONFIG NAMESPACE SCALEDJOB
//	floor refill KUBECONFIG NAMESPACE SCALEDJOB
//	floor drain  KUBECONFIG NAMESPACE SCALEDJOB
//	floor fanout KUBECONFIG NAMESPACE PREFIX
//
// By growth, it hears of a message, reads the depth and creates the difference, 16 at once. By refill, it creates
// maxReplicas Jobs, and another whenever one has finished. By drain, it does so when it hears of messages, and until it has
// created a Job for each that there is by then. By fanout, it does as by growth for all ScaledJobs of the
// namespace whose names begin with the prefix, over one subscription.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// parallel is how many Jobs are created at the same time.
const parallel = 16

func main() {
	err := run(ctrl.SetupSignalHandler(), os.Args[1], os.Args[2], client.ObjectKey{Namespace: os.Args[3], Name: os.Args[4]})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// run does the work until something goes wrong, and returns that.
func run(ctx context.Context, by, kubeconfig string, key client.ObjectKey) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	if err := scaledjobv1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return err
	}
	kube, err := client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	if by == "fanout" {
		return fanOut(ctx, kube, key.Namespace, key.Name)
	}
	var sj scaledjobv1.ScaledJob
	if err := kube.Get(ctx, key, &sj); err != nil {
		return err
	}
	switch by {
	case "refill":
		return refill(ctx, kube, &sj)
	case "drain":
		return drain(ctx, kube, &sj)
	default:
		return grow(ctx, kube, &sj)
	}
}

// channelPrefix is what the channels of all keys begin with.
const channelPrefix = "__keyspace@0__:"

// templateHash stands for the hash of the template, which nobody compares here.
const templateHash = "template"

// grow creates a Job for each message that comes.
func grow(ctx context.Context, kube client.Client, sj *scaledjobv1.ScaledJob) error {
	queue := redis.NewClient(&redis.Options{Addr: sj.Spec.RedisAddress})
	events := queue.Subscribe(ctx, channelPrefix+sj.Spec.QueueName)
	return growOn(ctx, kube, queue, sj, func() error {
		_, err := events.Receive(ctx)
		return err
	})
}

// growOn creates a Job for each message that there is whenever next returns.
func growOn(ctx context.Context, kube client.Client, queue *redis.Client, sj *scaledjobv1.ScaledJob, next func() error) error {
	for ordinal, created := int64(0), int64(0); ; {
		if err := next(); err != nil {
			return err
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
