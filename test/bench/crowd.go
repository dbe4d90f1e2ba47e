// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// listInterval is how often many objects are listed, which costs the API server much.
const listInterval = 250 * time.Millisecond

// crowd is the operator at work for ScaledJobs besides the one that is compared.
type crowd []*contender

// newCrowd makes so many ScaledJobs, each with a queue of its own on the server at this address.
func (s *setting) newCrowd(
	ctx context.Context, name, redisAddress string, count int, shape func(*scaledjobv1.ScaledJobSpec),
) (crowd, error) {
	return s.ours.crowd(ctx, name, redisAddress, count, shape)
}

// crowd makes so many ScaledJobs beside that of the contender.
func (c *contender) crowd(
	ctx context.Context, name, redisAddress string, count int, shape func(*scaledjobv1.ScaledJobSpec),
) (crowd, error) {
	members := make(crowd, count)
	for i := range members {
		var err error
		members[i], err = c.beside(ctx, fmt.Sprintf("%s-%d", name, i), func(spec *scaledjobv1.ScaledJobSpec) {
			spec.RedisAddress = redisAddress
			shape(spec)
		})
		if err != nil {
			return nil, err
		}
	}
	return members, nil
}

// queues are the keys of their queues.
func (c crowd) queues() (keys []string) {
	for _, member := range c {
		keys = append(keys, member.sj.Spec.QueueName)
	}
	return keys
}

// byName are the members by the names of their ScaledJobs.
func (c crowd) byName() map[string]*contender {
	members := make(map[string]*contender, len(c))
	for _, member := range c {
		members[member.sj.Name] = member
	}
	return members
}

// await waits until the condition holds of the status of each.
func (c crowd) await(ctx context.Context, holds func(scaledjobv1.ScaledJobStatus) bool) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	members := c.byName()
	return wait.PollUntilContextCancel(ctx, listInterval, true, func(ctx context.Context) (bool, error) {
		var list scaledjobv1.ScaledJobList
		if err := c[0].kube.List(ctx, &list, client.InNamespace(c[0].sj.Namespace)); err != nil {
			return false, err
		}
		left := len(c)
		for i := range list.Items {
			if members[list.Items[i].Name] != nil && holds(list.Items[i].Status) {
				left--
			}
		}
		return left == 0, nil
	})
}

// check fails unless each has exactly one Job per message.
func (c crowd) check(ctx context.Context) error {
	list := jobList()
	if err := c[0].kube.List(ctx, list, client.InNamespace(c[0].sj.Namespace)); err != nil {
		return fmt.Errorf("counting Jobs: %w", err)
	}
	created := map[string]int{}
	for i := range list.Items {
		created[list.Items[i].Labels[c[0].of.label]]++
	}
	for _, member := range c {
		if err := member.exact(created[member.sj.Name]); err != nil {
			return err
		}
	}
	return nil
}

// reachable says whether the depth of the queue can be read.
func reachable(status scaledjobv1.ScaledJobStatus) bool {
	return apimeta.IsStatusConditionTrue(status.Conditions, scaledjobv1.ConditionQueueConnected)
}

func unreachable(status scaledjobv1.ScaledJobStatus) bool {
	return apimeta.IsStatusConditionFalse(status.Conditions, scaledjobv1.ConditionQueueConnected)
}

// checked says whether the API server was asked about the template, and need not be any more.
func checked(status scaledjobv1.ScaledJobStatus) bool {
	return apimeta.IsStatusConditionTrue(status.Conditions, scaledjobv1.ConditionTemplateValid)
}

// remove deletes the ScaledJobs. Their Jobs are for somebody else to delete.
func (c crowd) remove(ctx context.Context) error {
	for _, member := range c {
		if err := member.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkSeen fails unless as many Jobs of each were seen as it has messages.
func (c crowd) checkSeen() error {
	for _, member := range c {
		if created := member.arrivals.count(member.sj.Name); created != member.pushed {
			return fmt.Errorf("%s is not exact: %d Jobs for %d messages", member.sj.Name, created, member.pushed)
		}
	}
	return nil
}

// empty takes all messages away.
func (c crowd) empty(ctx context.Context) error {
	for _, member := range c {
		if err := member.empty(ctx); err != nil {
			return err
		}
	}
	return nil
}
