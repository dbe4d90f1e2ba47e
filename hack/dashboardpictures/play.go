// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// messageGap is between two messages, and workTime how long a Job takes for one.
	messageGap, workTime = time.Second, 5 * time.Second
	workInterval         = 200 * time.Millisecond
	mostJobs             = 40
	burst, bad           = 150, 8
	outage               = 30 * time.Second
)

// play is what happens while Prometheus scrapes the operator.
type play struct {
	log     io.Writer
	control *cluster.Cluster
	api     client.WithWatch
	redis   *redistest.Server
	begun   time.Time
	stops   []func(context.Context) error
}

// perform takes six minutes.
func (p *play) perform(ctx context.Context) error {
	images, err := p.create(ctx, "mail", "image-processor", cluster.PodReadyAfter, "1s")
	if err != nil {
		return err
	}
	reports, err := p.create(ctx, "reports", "monthly", cluster.PodFailAfter, "1s")
	if err != nil {
		return err
	}
	p.begun = time.Now()
	all, failed := errgroup.WithContext(ctx)
	background, stop := context.WithCancel(failed)
	all.Go(func() error { return pushSteadily(background, images) })
	all.Go(func() error { return p.work(background) })
	all.Go(func() error {
		defer stop()
		return p.acts(background, images, reports)
	})
	if err := all.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}

// acts are what happens, and when.
func (p *play) acts(ctx context.Context, images, reports *sjtest.ScaledJob) error {
	for _, act := range []struct {
		at   time.Duration
		what string
		do   func() error
	}{
		{time.Minute, "a burst of messages", func() error { return images.Push(ctx, burst) }},
		{2*time.Minute + 30*time.Second, "Redis is down", p.redis.Kill},
		{2*time.Minute + 30*time.Second + outage, "Redis is back", func() error { return p.redis.Restart(ctx) }},
		{4 * time.Minute, "Jobs fail", func() error { return reports.Push(ctx, bad) }},
		{5 * time.Minute, "the template is corrected", func() error { return reports.Update(ctx, annotated(cluster.PodReadyAfter, "1s")) }},
		{6 * time.Minute, "the end", func() error { return nil }},
	} {
		if err := sjtest.Pause(ctx, time.Until(p.begun.Add(act.at))); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(p.log, "%4s  %s\n", act.at, act.what)
		if err := act.do(); err != nil {
			return fmt.Errorf("%s: %w", act.what, err)
		}
	}
	return nil
}

// create creates a ScaledJob in a namespace of its own, with an annotation of its Pods.
func (p *play) create(ctx context.Context, namespace, name, annotation, value string) (*sjtest.ScaledJob, error) {
	if err := p.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return nil, err
	}
	s := &sjtest.ScaledJob{API: p.api, Redis: p.redis.Client(), Address: p.redis.Addr(), Namespace: namespace, Name: name, Queue: name}
	return s, s.Create(ctx, sjtest.AtMost(mostJobs), sjtest.Polling(scaledjobv1.DefaultPollingIntervalSeconds), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.ManagedBy, spec.JobTemplate.Spec.BackoffLimit = nil, new(int32(0))
		annotated(annotation, value)(spec)
	})
}

func annotated(key, value string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.Template.Annotations = map[string]string{key: value}
	}
}

// pushSteadily pushes messages until ctx ends. While Redis is down, none gets in.
func pushSteadily(ctx context.Context, to *sjtest.ScaledJob) error {
	for sjtest.Pause(ctx, messageGap) == nil {
		_ = to.Push(ctx, 1)
	}
	return nil
}

// work has each Pod that runs for long enough take a message from its queue and succeed, until ctx ends.
func (p *play) work(ctx context.Context) error {
	for sjtest.Pause(ctx, workInterval) == nil {
		var pods corev1.PodList
		if err := p.api.List(ctx, &pods); err != nil {
			return client.IgnoreNotFound(err)
		}
		for _, pod := range pods.Items {
			queue := pod.Labels[scaledjobv1.LabelScaledJob]
			_, succeeds := pod.Annotations[cluster.PodSucceedAfter]
			if queue == "" || succeeds || pod.Status.Phase != corev1.PodRunning || time.Since(pod.Status.StartTime.Time) < workTime {
				continue
			}
			if p.redis.Client().RPop(ctx, queue).Err() != nil {
				continue // Redis is down, or has lost the message: the worker waits for one.
			}
			if err := cluster.Now(ctx, p.api, &pod, cluster.PodSucceedAfter); err != nil {
				return err
			}
		}
	}
	return nil
}
