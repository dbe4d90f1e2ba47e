// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
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
	// waitTimeout is how long to wait for something that takes seconds at most, and patience for what takes minutes: with
	// its limits, KEDA needs most of a minute for a thousand Jobs. On a busy machine its requests for hundreds of new
	// ScaledJobs time out, and it repeats them.
	waitTimeout, patience = time.Minute, 10 * time.Minute
	// pollInterval is how often something is looked at that sends no events, and listInterval how often many objects are
	// listed, which costs the API server much.
	pollInterval, listInterval = 20 * time.Millisecond, 250 * time.Millisecond
	// unlimited is a maxReplicas that no run reaches.
	unlimited int32 = 1_000_000
)

// kind is which kind of ScaledJobs a subject works for.
type kind struct {
	// label is that of its Jobs which has the name of the ScaledJob.
	label string
	// object is what the API server gets for a ScaledJob.
	object func(*scaledjobv1.ScaledJob) (client.Object, error)
}

// ourKind is that of the operator, and of the minimal loop.
func ourKind() kind {
	return kind{
		label:  scaledjobv1.LabelScaledJob,
		object: func(sj *scaledjobv1.ScaledJob) (client.Object, error) { return sj, nil },
	}
}

// subject is a program at work for one ScaledJob: the minimal loop, the operator or KEDA. Each has a namespace to
// itself.
type subject struct {
	name     string // in tables
	pid      int
	queue    *redis.Client
	kube     client.WithWatch
	sj       *scaledjobv1.ScaledJob
	kind     kind
	arrivals *arrivals
	// pushed is how many messages are in the queue.
	pushed int
}

// newSubject makes a namespace, but no ScaledJob yet, and starts no program.
func newSubject(ctx context.Context, of kind, name string, queue *redis.Client, kube client.WithWatch) (*subject, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench-" + name}}
	if err := kube.Create(ctx, namespace); err != nil {
		return nil, fmt.Errorf("creating %s: %w", namespace.Name, err)
	}
	seen, err := newArrivals(ctx, kube, namespace.Name, of.label)
	sj := newScaledJob(namespace.Name, "mail", queue.Options().Addr)
	return &subject{name: name, queue: queue, kube: kube, sj: sj, kind: of, arrivals: seen}, err
}

// newScaledJob asks for one Job of the usual size per message, in a queue of the same name.
func newScaledJob(namespace, name, redisAddress string) *scaledjobv1.ScaledJob {
	limit, queue := unlimited, namespace+"-"+name
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
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
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

// sibling is the same program at work for another ScaledJob of its namespace, which has a queue of its own. The API
// server does not know it yet.
func (s *subject) sibling(name string) *subject {
	other := *s
	other.sj, other.pushed = newScaledJob(s.sj.Namespace, name, s.sj.Spec.RedisAddress), 0
	return &other
}

// create has the API server know the ScaledJob.
func (s *subject) create(ctx context.Context) error {
	object, err := s.kind.object(s.sj)
	if err != nil {
		return err
	}
	return s.kube.Create(ctx, object)
}

func (s *subject) remove(ctx context.Context) error {
	object, err := s.kind.object(s.sj)
	if err != nil {
		return err
	}
	return s.kube.Delete(ctx, object)
}

// subscribed waits until somebody listens to its queue.
func (s *subject) subscribed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	channel := "__keyspace@0__:" + s.sj.Spec.QueueName
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		subscribers, err := s.queue.PubSubNumSub(ctx, channel).Result()
		return subscribers[channel] > 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting until %s subscribes: %w", s.name, err)
	}
	return nil
}

// serve pushes messages and returns how long it takes until as many more Jobs are seen.
func (s *subject) serve(ctx context.Context, messages int) (time.Duration, error) {
	begun, err := s.push(ctx, messages)
	if err != nil {
		return 0, err
	}
	last, err := s.nth(ctx, s.pushed)
	return last.at.Sub(begun), err
}

// push adds messages, each by a command of its own, and returns when it began to.
func (s *subject) push(ctx context.Context, messages int) (begun time.Time, err error) {
	pipeline := s.queue.Pipeline()
	for range messages {
		pipeline.LPush(ctx, s.sj.Spec.QueueName, "message")
	}
	begun = time.Now()
	if _, err := pipeline.Exec(ctx); err != nil {
		return time.Time{}, fmt.Errorf("pushing: %w", err)
	}
	s.pushed += messages
	return begun, nil
}

// nth waits for the n-th Job since the last clearing, counted from 1.
func (s *subject) nth(ctx context.Context, n int) (arrival, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	job, err := s.arrivals.nth(ctx, s.sj.Name, n)
	if err != nil {
		return arrival{}, fmt.Errorf("%s: %w", s.name, err)
	}
	return job, nil
}

// surplus is how many more Jobs were created than there are messages.
func (s *subject) surplus() int { return s.arrivals.count(s.sj.Name) - s.pushed }

// deleteJobs deletes all Jobs of the namespace, and waits until they are gone.
func (s *subject) deleteJobs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := s.kube.DeleteAllOf(ctx, &batchv1.Job{},
		client.InNamespace(s.sj.Namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return fmt.Errorf("deleting Jobs: %w", err)
	}
	return s.arrivals.reset(ctx)
}

// empty takes all messages away.
func (s *subject) empty(ctx context.Context) error {
	if err := s.queue.Del(ctx, s.sj.Spec.QueueName).Err(); err != nil {
		return fmt.Errorf("emptying the queue: %w", err)
	}
	s.pushed = 0
	return nil
}

// subjects are one program at work for several ScaledJobs of a namespace.
type subjects []*subject

// siblings creates further ScaledJobs.
func (s *subject) siblings(ctx context.Context, name string, count int, shape func(*scaledjobv1.ScaledJobSpec)) (subjects, error) {
	all := make(subjects, count)
	for i := range all {
		all[i] = s.sibling(fmt.Sprintf("%s-%d", name, i))
		shape(&all[i].sj.Spec)
		if err := all[i].create(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// asItIs changes nothing.
func asItIs(*scaledjobv1.ScaledJobSpec) {}

// await waits until the condition holds for the status of each.
func (all subjects) await(ctx context.Context, holds func(scaledjobv1.ScaledJobStatus) bool) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	known := make(map[string]bool, len(all))
	for _, each := range all {
		known[each.sj.Name] = true
	}
	var left int
	err := wait.PollUntilContextCancel(ctx, listInterval, true, func(ctx context.Context) (bool, error) {
		var list scaledjobv1.ScaledJobList
		if err := all[0].kube.List(ctx, &list, client.InNamespace(all[0].sj.Namespace)); err != nil {
			return false, err
		}
		left = len(all)
		for i := range list.Items {
			if known[list.Items[i].Name] && holds(list.Items[i].Status) {
				left--
			}
		}
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for statuses, of which %d of %d are missing: %w", left, len(all), err)
	}
	return nil
}

// each does something to all.
func (all subjects) each(ctx context.Context, do func(*subject, context.Context) error) error {
	for _, each := range all {
		if err := do(each, ctx); err != nil {
			return err
		}
	}
	return nil
}

// surplus is how many more Jobs were created than there are messages.
func (all subjects) surplus() (jobs int) {
	for _, each := range all {
		jobs += each.surplus()
	}
	return jobs
}
