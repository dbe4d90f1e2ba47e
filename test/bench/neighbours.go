// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

const (
	// hostileNamespace has hostileScaledJobs, of which every other one has hostileMessages.
	hostileNamespace  = "bench-hostile"
	hostileScaledJobs = 100
	hostileMessages   = 50

	mostBesides   = 3.0
	mostBesidesMS = 250.0
)

// measureNeighbours measures latency while the admission webhook of another namespace, whose ScaledJobs the operator
// serves too, answers no request about a Job: neither creates nor dry runs.
func measureNeighbours(ctx context.Context, log io.Writer, s *setting, size sizes) ([]comparison, error) {
	_, _ = fmt.Fprintf(log, "creating %d ScaledJobs in a namespace with a webhook that hangs …\n", hostileScaledJobs)
	hostile, end, err := s.beginHanging(ctx)
	if err != nil {
		return nil, err
	}
	if err := hostile.await(ctx, reachable); err != nil {
		return nil, errors.Join(err, end())
	}
	comparisons, err := measureLatency(ctx, log, s, size)
	if err := errors.Join(err, end()); err != nil {
		return nil, err
	}
	for i := range comparisons {
		comparisons[i].work += ", beside a webhook of another namespace that hangs"
		comparisons[i].atMost = mostBesides
	}
	p99 := comparisons[len(comparisons)-1]
	return append(comparisons, within(p99.work+", of the operator alone", "ms", mostBesidesMS, p99.ours)), nil
}

// beginHanging has the webhook hang until end is called.
func (s *setting) beginHanging(ctx context.Context) (_ crowd, end func() error, _ error) {
	hanging, err := webhook.Start(ctx, s.ours.kube, hostileNamespace, webhook.CreateJob, webhook.Hang)
	if err != nil {
		return nil, nil, err
	}
	owner := *s.ours
	owner.sj = newScaledJob(hostileNamespace, "hostile", s.redis.Addr())
	hostile, err := owner.crowd(ctx, "hostile", s.redis.Addr(), hostileScaledJobs, func(*scaledjobv1.ScaledJobSpec) { /* as usual */ })
	if err != nil {
		return nil, nil, errors.Join(err, hanging.Stop(ctx))
	}
	end = func() error {
		return errors.Join(hostile.remove(ctx), hanging.Stop(ctx), s.redis.Client().FlushAll(ctx).Err())
	}
	for i := 0; i < len(hostile); i += 2 {
		if err := s.push(ctx, hostile[i:i+1].queues(), hostileMessages); err != nil {
			return nil, nil, errors.Join(err, end())
		}
	}
	return hostile, end, nil
}

// makeHostileNamespace makes the namespace, which the operator watches from its start.
func (s *setting) makeHostileNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostileNamespace}}
	if err := s.ours.kube.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating namespace %s: %w", hostileNamespace, err)
	}
	return nil
}
