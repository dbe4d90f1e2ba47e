// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// restTime is how long the operator is watched while nothing happens but that it reads each queue every 30 seconds.
	restTime = time.Minute
	// restartPushes come to ScaledJobs at even distances before the operator starts again.
	restartPushes = 20
	// scaleSamplesPart of the samples of the latency are taken with each number of ScaledJobs.
	scaleSamplesPart = 2
	// scaleParallel ScaledJobs are created or deleted at the same time.
	scaleParallel = 16
	// manyScaledJobs is the number for which there are targets, and leastCreated the least number that takes long enough
	// to create.
	manyScaledJobs, leastCreated = 10_000, 100
)

// scale is a number of ScaledJobs, of which the first is that of the rival.
type scale struct {
	*pair

	members subjects
	all     []results.Figure
}

// measureScale takes what each number of ScaledJobs costs. The operator is started again for each.
func measureScale(ctx context.Context, p *pair, only choices) (all []results.Figure, err error) {
	for _, count := range only.scale {
		s := &scale{pair: p, members: subjects{p.rival}}
		for i := range count - 1 {
			s.members = append(s.members, p.rival.sibling(fmt.Sprintf("queue-%d", i)))
		}
		if err := s.take(ctx, samples/scaleSamplesPart); err != nil {
			return nil, fmt.Errorf("with %d ScaledJobs: %w", count, err)
		}
		all = append(all, s.all...)
	}
	return all, nil
}

// take takes everything, and leaves nothing behind.
func (s *scale) take(ctx context.Context, samples int) error {
	if err := errors.Join(s.stopOperator(ctx), s.startOperator(ctx)); err != nil {
		return err
	}
	if err := s.becomeReady(ctx); err != nil {
		return err
	}
	if err := s.rest(ctx); err != nil {
		return err
	}
	took, _, err := s.latency(ctx, s.spread(samples), samples)
	if err != nil {
		return err
	}
	p50, p99 := s.quantiles(s.work("push → Job seen"), took)
	s.all = append(s.all, p50, p99)
	if err := s.restart(ctx); err != nil {
		return err
	}
	return s.each(ctx, "deleting", (*subject).remove)
}

// work names what was measured.
func (s *scale) work(what string) string {
	return fmt.Sprintf("%d ScaledJobs: %s", len(s.members), what)
}

// add adds a figure, with a target if there are many ScaledJobs.
func (s *scale) add(what, unit string, ours, most float64) {
	figure := results.Alone(s.work(what), unit, ours)
	if len(s.members) >= manyScaledJobs {
		figure.Most = most
	}
	s.all = append(s.all, figure)
}

// spread returns that many members at even distances, or all if there are fewer.
func (s *scale) spread(count int) subjects {
	picked := make(subjects, min(count, len(s.members)))
	for i := range picked {
		picked[i] = s.members[i*len(s.members)/len(picked)]
	}
	return picked
}

// each does something to all members but the first, many at the same time.
func (s *scale) each(ctx context.Context, doing string, do func(*subject, context.Context) error) error {
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(scaleParallel)
	for _, member := range s.members[1:] {
		group.Go(func() error {
			s.shown.Status("%s, %d of %d", doing, done.Add(1)+1, len(s.members))
			return do(member, ctx)
		})
	}
	return group.Wait()
}

// becomeReady creates the ScaledJobs, and waits until all of them were seen to be Ready, and notice messages at once.
func (s *scale) becomeReady(ctx context.Context) error {
	if len(s.members) > 1 {
		began := time.Now()
		if err := s.createReady(ctx); err != nil {
			return err
		}
		if len(s.members) >= leastCreated {
			s.add("first create → all Ready", "s", time.Since(began).Seconds(), 0)
		}
	}
	return errors.Join(s.members.await(ctx, immediate), sjtest.Pause(ctx, settleTime))
}

func (s *scale) createReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	namespace := client.InNamespace(s.rival.sj.Namespace)
	var list scaledjobv1.ScaledJobList
	if err := s.rival.kube.List(ctx, &list, namespace); err != nil {
		return err
	}
	stream := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		return s.rival.kube.Watch(ctx, &scaledjobv1.ScaledJobList{}, namespace, &client.ListOptions{Raw: &opts})
	}}
	ready, awaited := map[string]bool{}, len(s.members)-1
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.each(ctx, "creating", (*subject).create) })
	both.Go(func() error {
		_, err := watchtools.Until(ctx, list.ResourceVersion, stream, func(event watch.Event) (bool, error) {
			sj, ok := event.Object.(*scaledjobv1.ScaledJob)
			if !ok {
				return false, fmt.Errorf("watching the ScaledJobs: %v", event.Object)
			}
			if sj.Name != s.rival.sj.Name && apimeta.IsStatusConditionTrue(sj.Status.Conditions, scaledjobv1.ConditionReady) {
				ready[sj.Name] = true
			}
			s.shown.Status("becoming Ready, %d of %d", len(ready), awaited)
			return len(ready) == awaited, nil
		})
		return err
	})
	if err := both.Wait(); err != nil {
		return fmt.Errorf("becoming Ready, with %d of %d: %w", len(ready), awaited, err)
	}
	return nil
}

// rest takes the CPU time of the operator while it reads each queue every 30 seconds and does nothing else, and then
// the memory of the process. Nobody reads its metrics, which takes CPU time and memory too.
func (s *scale) rest(ctx context.Context) error {
	const mostMB, mostCores = 180, 0.08
	s.shown.Status("watching %d ScaledJobs at rest", len(s.members))
	before, err := cpuTime(s.rival.pid)
	if err != nil {
		return err
	}
	if err := sjtest.Pause(ctx, restTime); err != nil {
		return err
	}
	after, err := cpuTime(s.rival.pid)
	if err != nil {
		return err
	}
	resident, err := residentMB(s.rival.pid)
	s.add("memory of the process", "MB", resident, mostMB)
	s.add("CPU at rest", "cores", (after-before)/restTime.Seconds(), mostCores)
	return err
}

// restart takes how long after its start the operator has created the Jobs of messages that came while it was away.
func (s *scale) restart(ctx context.Context) error {
	const most = 3
	s.shown.Status("starting the operator again with %d ScaledJobs", len(s.members))
	if err := s.stopOperator(ctx); err != nil {
		return err
	}
	touched := s.spread(restartPushes)
	for i := range restartPushes {
		if _, err := touched[i%len(touched)].push(ctx, 1); err != nil {
			return err
		}
	}
	began, longest := time.Now(), 0.0
	if err := s.startOperator(ctx); err != nil {
		return err
	}
	for _, member := range touched {
		last, err := member.nth(ctx, member.pushed)
		if err != nil {
			return err
		}
		longest = max(longest, last.at.Sub(began).Seconds())
	}
	s.add(fmt.Sprintf("operator starts again → Jobs of %d pushes before that", restartPushes), "s", longest, most)
	_, err := s.finish(ctx, map[*subject]subjects{s.rival: touched[1:]})
	return err
}
