// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// crewMessages come at once to a queue with crewLimit Jobs, and each Job works for crewTime on one message.
	crewMessages = 300
	crewLimit    = int32(10)
	crewTime     = 500 * time.Millisecond
	// crewPatience is for all messages, ten with each poll.
	crewPatience = 30 * time.Minute
	// jobsKept is how many Jobs that have succeeded are kept: KEDA's own limit.
	jobsKept = int32(100)
)

// crews has workers take their message off the list when they begin. It returns how many seconds pass until all
// messages are processed, and the surplus of both.
func (p *pair) crews(ctx context.Context, rounds int) (lasted, surplus values, err error) {
	lasted, surplus = values{}, values{}
	for round, offset := range offsets(rounds, p.interval) {
		others := map[*subject]subjects{}
		for _, of := range p.inTurn(round) {
			p.shown.Status("%d messages for %d Jobs at once, round %d of %d", crewMessages, crewLimit, round+1, rounds)
			member := of.sibling(fmt.Sprintf("crew-%d", round))
			limit, kept := crewLimit, jobsKept
			member.sj.Spec.MaxReplicas, member.sj.Spec.SuccessfulJobsHistoryLimit = &limit, &kept
			member.sj.Spec.ScalingStrategy.Type = scaledjobv1.StrategyAccurate
			if err := member.create(ctx); err != nil {
				return nil, nil, err
			}
			others[of] = subjects{member}
			took, err := p.serveAll(ctx, of, member, offset)
			if err != nil {
				return nil, nil, err
			}
			lasted[of] = append(lasted[of], took.Seconds())
		}
		extra, err := p.finish(ctx, others)
		if err != nil {
			return nil, nil, err
		}
		surplus.add(extra)
		for of, members := range others {
			pods := of.kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(of.sj.Namespace), client.GracePeriodSeconds(0))
			if err := errors.Join(pods, p.remove(ctx, of, members)); err != nil {
				return nil, nil, err
			}
		}
	}
	return lasted, surplus, nil
}

func (p *pair) serveAll(ctx context.Context, of, member *subject, offset time.Duration) (time.Duration, error) {
	workers := &crew{subject: member, shown: func(served int64) {
		p.shown.Status("%d of %d messages are processed, %d Jobs at once", served, crewMessages, crewLimit)
	}}
	if of == p.rival {
		if err := errors.Join(p.awaitRest(ctx, subjects{member}), sjtest.Pause(ctx, offset)); err != nil {
			return 0, err
		}
		return workers.serve(ctx)
	}
	process, err := p.runLoop("drain", member.sj.Name)
	if err != nil {
		return 0, err
	}
	var took time.Duration
	if err = member.subscribed(ctx); err == nil {
		took, err = workers.serve(ctx)
	}
	return took, errors.Join(err, errorOf(ctx, process), process.Kill())
}

// crew is the workers in the Jobs of a ScaledJob, in place of those in Pods, and of the controllers of Kubernetes,
// which do not run here.
type crew struct {
	*subject

	served atomic.Int64
	shown  func(served int64)
}

// errAllServed ends the work.
var errAllServed = errors.New("all messages are processed")

// serve pushes messages by one command, has a worker in each Job, and returns how long it takes until all messages are
// processed.
func (c *crew) serve(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, crewPatience)
	defer cancel()
	messages := make([]any, crewMessages)
	for i := range messages {
		messages[i] = "message"
	}
	begun := time.Now()
	if err := c.queue.LPush(ctx, c.sj.Spec.QueueName, messages...).Err(); err != nil {
		return 0, fmt.Errorf("pushing: %w", err)
	}
	c.pushed += crewMessages
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error {
		for i := 1; ; i++ {
			job, err := c.nth(working, i)
			if err != nil {
				return err
			}
			group.Go(func() error {
				last, err := c.work(working, job.job)
				if !last {
					return err
				}
				took = time.Since(begun)
				return errAllServed
			})
		}
	})
	if err = group.Wait(); errors.Is(err, errAllServed) {
		err = nil
	}
	return took, err
}

// work starts a Pod of the Job, takes a message, and completes the Job after its time, or at once if there is none. It
// returns whether the message was the last.
func (c *crew) work(ctx context.Context, job string) (last bool, err error) {
	if err := c.startPod(ctx, job); err != nil {
		return false, err
	}
	err = c.queue.RPop(ctx, c.sj.Spec.QueueName).Err()
	found := !errors.Is(err, redis.Nil)
	if found && err != nil {
		return false, fmt.Errorf("taking a message: %w", err)
	}
	if found {
		if err := sjtest.Pause(ctx, crewTime); err != nil {
			return false, err
		}
	}
	if err := jobwatch.Complete(ctx, c.kube, client.ObjectKey{Namespace: c.sj.Namespace, Name: job}); err != nil || !found {
		return false, err
	}
	served := c.served.Add(1)
	c.shown(served)
	return served == crewMessages, nil
}

// startPod has a Pod of the Job run, and the Job know it.
func (c *crew) startPod(ctx context.Context, job string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.sj.Namespace, Name: job, Labels: map[string]string{"job-name": job, batchv1.JobNameLabel: job},
		},
		Spec: *c.sj.Spec.JobTemplate.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.NodeName = "node"
	if err := c.kube.Create(ctx, pod); err != nil {
		return fmt.Errorf("creating a Pod: %w", err)
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if err := c.kube.Status().Update(ctx, pod); err != nil {
		return fmt.Errorf("starting a Pod: %w", err)
	}
	return jobwatch.Ready(ctx, c.kube, client.ObjectKey{Namespace: c.sj.Namespace, Name: job})
}
