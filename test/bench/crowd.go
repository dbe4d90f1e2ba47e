// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// crowd is ScaledJobs that the operator works for besides the one that is compared.
type crowd struct {
	kube    client.Client
	members map[string]*scaledjobv1.ScaledJob
}

// newCrowd makes so many ScaledJobs, each with a queue of its own.
func (s *setting) newCrowd(
	ctx context.Context, name, redisAddress string, count int, shape func(*scaledjobv1.ScaledJobSpec),
) (*crowd, error) {
	c := &crowd{kube: s.ours.kube, members: map[string]*scaledjobv1.ScaledJob{}}
	for i := range count {
		sj := newScaledJob(s.ours.sj.Namespace, fmt.Sprintf("%s-%d", name, i), redisAddress)
		sj.Name = sj.Spec.QueueName
		shape(&sj.Spec)
		if err := c.kube.Create(ctx, sj); err != nil {
			return nil, fmt.Errorf("creating %s: %w", sj.Name, err)
		}
		c.members[sj.Name] = sj
	}
	return c, nil
}

// queues are the keys of their queues.
func (c *crowd) queues() (keys []string) {
	for _, sj := range c.members {
		keys = append(keys, sj.Spec.QueueName)
	}
	return keys
}

// await waits until the condition holds of the status of each.
func (c *crowd) await(ctx context.Context, namespace string, holds func(scaledjobv1.ScaledJobStatus) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		var list scaledjobv1.ScaledJobList
		if err := c.kube.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		left := len(c.members)
		for i := range list.Items {
			if c.members[list.Items[i].Name] != nil && holds(list.Items[i].Status) {
				left--
			}
		}
		return left == 0, nil
	})
}

// reachable says whether the depth of the queue can be read.
func reachable(status scaledjobv1.ScaledJobStatus) bool {
	return apimeta.IsStatusConditionTrue(status.Conditions, scaledjobv1.ConditionQueueConnected)
}

func unreachable(status scaledjobv1.ScaledJobStatus) bool {
	return apimeta.IsStatusConditionFalse(status.Conditions, scaledjobv1.ConditionQueueConnected)
}

// remove deletes the ScaledJobs. Their Jobs are for somebody else to delete.
func (c *crowd) remove(ctx context.Context) error {
	for _, sj := range c.members {
		if err := c.kube.Delete(ctx, sj); err != nil {
			return fmt.Errorf("deleting %s: %w", sj.Name, err)
		}
	}
	return nil
}
