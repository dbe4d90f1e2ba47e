// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/workers"
)

// crew simulates the containers of the Pods of a ScaledJob. Each takes a message, finishes it when the test lets it,
// and ends.
type crew struct {
	// api is where the Pods are.
	api  client.WithWatch
	kind workers.Kind
	// returns has a container that is stopped put its message back. Otherwise the message stays where it is: the next
	// container of the same Job takes it over, or any other one that finds no message.
	returns bool
	// turns lets a container finish its message.
	turns chan struct{}

	mu sync.Mutex
	// stop stops the containers that run, by their Pod.
	stop map[types.UID]context.CancelFunc
	// left are the messages of containers that were stopped, by the Job.
	left map[string]workers.Message
	counts
}

// counts are how many containers have a message now, how many have finished one, and how many found none.
type counts struct{ Working, Served, Idle int }

// run has a container for each Pod that comes to run, until ctx ends.
func (c *crew) run(ctx context.Context, changes watch.Interface) error {
	var group errgroup.Group
	for change := range changes.ResultChan() {
		if pod, isPod := change.Object.(*corev1.Pod); isPod {
			c.see(ctx, change.Type, pod, &group)
		}
	}
	return group.Wait()
}

// see starts the container of a Pod, or stops it.
func (c *crew) see(ctx context.Context, kind watch.EventType, pod *corev1.Pod, group *errgroup.Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stop, started := c.stop[pod.UID]
	switch {
	case kind == watch.Deleted || pod.DeletionTimestamp != nil:
		if started {
			stop()
		}
	case pod.Status.Phase == corev1.PodRunning && !started:
		running, stop := context.WithCancel(ctx)
		c.stop[pod.UID] = stop
		group.Go(func() error {
			defer stop()
			if err := c.contain(ctx, running, pod); ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
}

// contain does what the container of a Pod does, until running ends: then somebody deletes the Pod.
func (c *crew) contain(ctx, running context.Context, pod *corev1.Pod) error {
	job := pod.Labels[batchv1.JobNameLabel]
	message, found, err := c.take(ctx, job)
	if err != nil {
		return err
	}
	if !found {
		c.count(counts{Idle: 1})
		return cluster.Now(ctx, c.api, pod, cluster.PodSucceedAfter)
	}
	c.count(counts{Working: 1})
	select {
	case <-c.turns:
	case <-running.Done():
		return c.leave(ctx, job, message)
	}
	if err := message.Finish(ctx); err != nil {
		return err
	}
	c.count(counts{Working: -1, Served: 1})
	return cluster.Now(ctx, c.api, pod, cluster.PodSucceedAfter)
}

// take gives a container of the Job a message, if there is one.
func (c *crew) take(ctx context.Context, job string) (message workers.Message, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, own := c.left[job]; !own {
		if message, found, err := c.kind.Take(ctx, job); err != nil || found {
			return message, found, err
		}
		for of := range maps.Keys(c.left) {
			job = of
		}
	}
	message, found = c.left[job]
	delete(c.left, job)
	return message, found, nil
}

// leave is the end of a container that is stopped.
func (c *crew) leave(ctx context.Context, job string, message workers.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Working--
	if !c.returns {
		c.left[job] = message
		return nil
	}
	return c.kind.Push(ctx, message.Body)
}

func (c *crew) count(more counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Working += more.Working
	c.Served += more.Served
	c.Idle += more.Idle
}

// counted returns the counts as they are now.
func (c *crew) counted() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}
