// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// waitTimeout is how long to wait for something that takes seconds at most.
	waitTimeout = time.Minute
	// settleTime is how long a contender is given to create Jobs that nobody asked for.
	settleTime = 2 * time.Second
	// pollInterval is how often what cannot be watched for is looked at.
	pollInterval = 20 * time.Millisecond
	// unlimited is a maxReplicas that no run gets to.
	unlimited int32 = 1_000_000
)

// kind is which kind of ScaledJobs a contender works for.
type kind struct {
	// label is that of its Jobs which has the name of the ScaledJob.
	label string
	// object is what the API server gets for a ScaledJob.
	object func(*scaledjobv1.ScaledJob) (client.Object, error)
}

// ourKind is that of the operator.
func ourKind() kind {
	return kind{
		label:  scaledjobv1.LabelScaledJob,
		object: func(sj *scaledjobv1.ScaledJob) (client.Object, error) { return sj, nil },
	}
}

// contender is one of the programs that are compared, at work for one ScaledJob. Each has a namespace to itself.
type contender struct {
	name     string
	queue    *redis.Client
	kube     client.WithWatch
	sj       *scaledjobv1.ScaledJob
	of       kind
	arrivals *arrivals
	// patience is how long to wait for a Job.
	patience time.Duration
	// reports says that the contender writes the status of its ScaledJob.
	reports bool
	// pushed is how many messages are in the queue.
	pushed int
}

// newContender makes what the contender works on, but does not start it.
func newContender(ctx context.Context, name string, queue *redis.Client, kube client.WithWatch) (*contender, error) {
	c, err := newContenderOf(ctx, ourKind(), name, queue, kube)
	if err != nil {
		return nil, err
	}
	return c, c.create(ctx)
}

// newContenderOf makes a namespace, but no ScaledJob of the kind yet.
func newContenderOf(ctx context.Context, of kind, name string, queue *redis.Client, kube client.WithWatch) (*contender, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench-" + name}}
	if err := kube.Create(ctx, namespace); err != nil {
		return nil, fmt.Errorf("creating %s: %w", namespace.Name, err)
	}
	seen, err := newArrivals(ctx, kube, namespace.Name, of.label)
	if err != nil {
		return nil, err
	}
	sj := newScaledJob(namespace.Name, "messages-"+name, queue.Options().Addr)
	return &contender{name: name, queue: queue, kube: kube, sj: sj, of: of, arrivals: seen, patience: waitTimeout}, nil
}

// create has the API server know the ScaledJob.
func (c *contender) create(ctx context.Context) error {
	object, err := c.of.object(c.sj)
	if err != nil {
		return err
	}
	if err := c.kube.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %s: %w", c.sj.Name, err)
	}
	return nil
}

// newScaledJob asks for one Job of the usual size per message.
func newScaledJob(namespace, queue, redisAddress string) *scaledjobv1.ScaledJob {
	limit := unlimited
	worker := corev1.Container{
		Name:    "worker",
		Image:   "registry.example/mail/worker:v1.2.3",
		Command: []string{"/worker", "--queue", queue},
		Env: []corev1.EnvVar{
			{Name: "REDIS_ADDRESS", Value: redisAddress},
			{Name: "SMTP_HOST", Value: "smtp.mail.svc.cluster.local"},
			{Name: "LOG_LEVEL", Value: "info"},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
		},
	}
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mail"},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName:    queue,
			RedisAddress: redisAddress,
			Threshold:    1,
			MaxReplicas:  &limit,
			JobTemplate: &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{worker}},
			}}},
		},
	}
}

// beside makes another ScaledJob of this name, with a queue of its own, in the namespace of the contender. Both count
// their own Jobs.
func (c *contender) beside(ctx context.Context, name string, shape func(*scaledjobv1.ScaledJobSpec)) (*contender, error) {
	other := c.another(name)
	shape(&other.sj.Spec)
	return other, other.create(ctx)
}

// another is what beside makes, before the API server knows it.
func (c *contender) another(name string) *contender {
	other := *c
	other.sj, other.pushed = newScaledJob(c.sj.Namespace, c.sj.Spec.QueueName+"-"+name, c.sj.Spec.RedisAddress), 0
	other.sj.Name = name
	return &other
}

// subscribed waits until the contender listens to its queue.
func (c *contender) subscribed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	channel := "__keyspace@0__:" + c.sj.Spec.QueueName
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		subscribers, err := c.queue.PubSubNumSub(ctx, channel).Result()
		return subscribers[channel] == 1, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to subscribe: %w", c.name, err)
	}
	return nil
}

// serve pushes messages and returns how long it takes until as many more Jobs are seen.
func (c *contender) serve(ctx context.Context, messages int) (time.Duration, error) {
	start, err := c.push(ctx, messages)
	if err != nil {
		return 0, err
	}
	last, err := c.nth(ctx, c.pushed)
	return last.at.Sub(start), err
}

// burst pushes messages and returns how many milliseconds it takes until each of as many more Jobs is seen.
func (c *contender) burst(ctx context.Context, messages int) (times []float64, err error) {
	start, err := c.push(ctx, messages)
	if err != nil {
		return nil, err
	}
	if _, err := c.nth(ctx, c.pushed); err != nil {
		return nil, err
	}
	for _, job := range c.arrivals.those(c.sj.Name)[c.pushed-messages : c.pushed] {
		times = append(times, inMilliseconds(job.at.Sub(start)))
	}
	return times, nil
}

// push adds messages, each by a command of its own, and tells when it began to.
func (c *contender) push(ctx context.Context, messages int) (begun time.Time, err error) {
	pipeline := c.queue.Pipeline()
	for range messages {
		pipeline.LPush(ctx, c.sj.Spec.QueueName, "message")
	}
	begun = time.Now()
	if _, err := pipeline.Exec(ctx); err != nil {
		return time.Time{}, fmt.Errorf("pushing: %w", err)
	}
	c.pushed += messages
	return begun, nil
}

// nth waits for the n-th Job since the last clearing, counted from 1.
func (c *contender) nth(ctx context.Context, n int) (arrival, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	job, err := c.arrivals.nth(ctx, c.sj.Name, n)
	if err != nil {
		return arrival{}, fmt.Errorf("%s: %w", c.name, err)
	}
	return job, nil
}

// check fails unless there is exactly one Job per message.
func (c *contender) check(ctx context.Context) error {
	list, of := jobList(), client.MatchingLabels{c.of.label: c.sj.Name}
	if err := c.kube.List(ctx, list, client.InNamespace(c.sj.Namespace), of); err != nil {
		return fmt.Errorf("counting Jobs: %w", err)
	}
	return c.exact(len(list.Items))
}

// exact fails unless these are as many Jobs as there are messages.
func (c *contender) exact(created int) error {
	if created != c.pushed {
		return fmt.Errorf("%s is not exact: %d Jobs for %d messages", c.name, created, c.pushed)
	}
	return nil
}

// clear takes its messages and all Jobs of the namespace away, and waits until the contender knows.
func (c *contender) clear(ctx context.Context) error {
	if err := c.empty(ctx); err != nil {
		return err
	}
	return errors.Join(c.deleteJobs(ctx), c.idle(ctx))
}

// deleteJobs deletes all Jobs of the namespace, and waits until they are gone. Beside KEDA, which takes all of the API
// server, that takes minutes.
func (c *contender) deleteJobs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kedaPatience)
	defer cancel()
	err := c.kube.DeleteAllOf(ctx, &batchv1.Job{},
		client.InNamespace(c.sj.Namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return fmt.Errorf("deleting Jobs: %w", err)
	}
	return c.arrivals.reset(ctx)
}

// empty takes all messages away.
func (c *contender) empty(ctx context.Context) error {
	if err := c.queue.Del(ctx, c.sj.Spec.QueueName).Err(); err != nil {
		return fmt.Errorf("emptying the queue: %w", err)
	}
	c.pushed = 0
	return nil
}

// remove deletes the ScaledJob.
func (c *contender) remove(ctx context.Context) error {
	object, err := c.of.object(c.sj)
	if err != nil {
		return err
	}
	if err := c.kube.Delete(ctx, object); err != nil {
		return fmt.Errorf("deleting %s: %w", c.sj.Name, err)
	}
	return nil
}

// idle waits until the contender has reported that there is neither a message nor a Job, if it reports.
func (c *contender) idle(ctx context.Context) error {
	if !c.reports {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := c.kube.Get(ctx, client.ObjectKeyFromObject(c.sj), c.sj)
		status := c.sj.Status
		return status.QueueDepth != nil && *status.QueueDepth == 0 && status.ActiveJobs == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the status of %s: %w", c.name, err)
	}
	return nil
}

// about is a random duration of this mean, and of half of it at least.
func about(mean time.Duration) time.Duration {
	return time.Duration((0.5 + rand.Float64()) * float64(mean))
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
