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
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// crewLimit Jobs may run at once, and each works for crewTime on its message.
	crewLimit = int32(10)
	crewTime  = 500 * time.Millisecond
	// crewPatience is for all messages, ten with each poll.
	crewPatience = 30 * time.Minute
	// jobsKept is how many Jobs that have succeeded are kept: KEDA's own limit.
	jobsKept = int32(100)
)

func churnWorks(size sizes) []tallied {
	name := fmt.Sprintf("%d messages, %d Jobs at once", size.messages, crewLimit)
	return []tallied{
		{name: name + ", until all are processed", unit: "s", part: median, rounds: true},
		{name: name + ", Jobs too many", part: median, rounds: true},
	}
}

// manned is a ScaledJob whose workers take their message off the list when they begin.
func manned(spec *scaledjobv1.ScaledJobSpec) {
	limit, kept := crewLimit, jobsKept
	spec.MaxReplicas, spec.SuccessfulJobsHistoryLimit = &limit, &kept
	spec.ScalingStrategy.Type = scaledjobv1.StrategyAccurate
}

// churn pushes messages at once to a queue with few Jobs, which work on one message each.
func (p *stage) churn(ctx context.Context) error {
	works := churnWorks(p.size)
	for round, after := range offsets(p.rounds(), p.interval) {
		for _, c := range p.both(round) {
			member, err := c.beside(ctx, fmt.Sprintf("churn-%d", round), manned)
			if err != nil {
				return err
			}
			p.shown.Status("%d messages for %d Jobs at once, round %d of %d", p.size.messages, crewLimit, round+1, p.rounds())
			took, err := p.serveAll(ctx, c, member, after)
			if err != nil {
				return err
			}
			p.found.add(works[0], p.column(c), took.Seconds())
			if err := p.settle(ctx); err != nil {
				return err
			}
			extra, err := p.surplus(c, crowd{member})
			if err != nil {
				return err
			}
			p.found.add(works[1], p.column(c), extra)
			if err := p.endChurn(ctx, c, member); err != nil {
				return err
			}
		}
	}
	return nil
}

// serveAll returns how long it takes until all messages are processed.
func (p *stage) serveAll(ctx context.Context, c, member *contender, after time.Duration) (took time.Duration, err error) {
	if c == p.of {
		if err := errors.Join(p.awaitRest(ctx, crowd{member}), scene.Pause(ctx, after)); err != nil {
			return 0, err
		}
		return p.serveBy(ctx, member)
	}
	process, err := p.runFloor("drain", member)
	if err != nil {
		return 0, err
	}
	if err = member.subscribed(ctx); err == nil {
		took, err = p.serveBy(ctx, member)
	}
	return took, errors.Join(err, endOf(ctx, process), process.Kill())
}

func (p *stage) serveBy(ctx context.Context, member *contender) (time.Duration, error) {
	workers := &crew{contender: member, messages: int64(p.size.messages), told: func(served int64) {
		p.shown.Status("%d of %d messages are processed, %d Jobs at once", served, p.size.messages, crewLimit)
	}}
	begun, err := member.pushAtOnce(ctx, p.size.messages)
	if err != nil {
		return 0, err
	}
	ended, err := workers.serve(ctx)
	return ended.Sub(begun), err
}

func (p *stage) endChurn(ctx context.Context, c, member *contender) error {
	if err := p.clear(ctx, c, crowd{member}); err != nil {
		return err
	}
	all := client.InNamespace(c.sj.Namespace)
	if err := c.kube.DeleteAllOf(ctx, &corev1.Pod{}, all, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("deleting Pods: %w", err)
	}
	return p.remove(ctx, crowd{member}, 1)
}

// pushAtOnce adds messages by one command, and tells when it began to.
func (c *contender) pushAtOnce(ctx context.Context, messages int) (begun time.Time, err error) {
	values := make([]any, messages)
	for i := range values {
		values[i] = "message"
	}
	begun = time.Now()
	if err := c.queue.LPush(ctx, c.sj.Spec.QueueName, values...).Err(); err != nil {
		return time.Time{}, fmt.Errorf("pushing: %w", err)
	}
	c.pushed += messages
	return begun, nil
}

// crew is the workers in the Jobs of a ScaledJob, in place of those in Pods, and of the controllers of Kubernetes, which
// do not run here.
type crew struct {
	*contender

	messages int64
	served   atomic.Int64
	told     func(served int64)
}

// serve has a worker in each Job until all messages are processed, and tells when that was.
func (w *crew) serve(ctx context.Context) (ended time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, crewPatience)
	defer cancel()
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error {
		for i := 1; ; i++ {
			job, err := w.nth(working, i)
			if err != nil {
				return err
			}
			group.Go(func() error {
				last, err := w.work(working, job.job)
				if !last {
					return err
				}
				ended = time.Now()
				return errAllServed
			})
		}
	})
	if err = group.Wait(); errors.Is(err, errAllServed) {
		err = nil
	}
	return ended, err
}

// errAllServed ends the work.
var errAllServed = errors.New("all messages are processed")

// work starts a Pod of the Job, takes a message, and completes the Job after its time, or at once if there is none. It
// tells whether the message was the last.
func (w *crew) work(ctx context.Context, job string) (last bool, err error) {
	if err := w.startPod(ctx, job); err != nil {
		return false, err
	}
	err = w.queue.RPop(ctx, w.sj.Spec.QueueName).Err()
	found := !errors.Is(err, redis.Nil)
	if found && err != nil {
		return false, fmt.Errorf("taking a message: %w", err)
	}
	if found {
		if err := scene.Pause(ctx, crewTime); err != nil {
			return false, err
		}
	}
	if err := witness.Complete(ctx, w.kube, client.ObjectKey{Namespace: w.sj.Namespace, Name: job}); err != nil || !found {
		return false, err
	}
	served := w.served.Add(1)
	w.told(served)
	return served == w.messages, nil
}

// startPod has a Pod of the Job run, and the Job know it.
func (w *crew) startPod(ctx context.Context, job string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.sj.Namespace, Name: job, Labels: map[string]string{"job-name": job, batchv1.JobNameLabel: job},
		},
		Spec: *w.sj.Spec.JobTemplate.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.NodeName = "node"
	if err := w.kube.Create(ctx, pod); err != nil {
		return fmt.Errorf("creating a Pod: %w", err)
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if err := w.kube.Status().Update(ctx, pod); err != nil {
		return fmt.Errorf("starting a Pod: %w", err)
	}
	return witness.Ready(ctx, w.kube, client.ObjectKey{Namespace: w.sj.Namespace, Name: job})
}
