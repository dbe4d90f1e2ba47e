// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// statusStep is how many more ScaledJobs change in each step, which lasts statusTime. Each of them changes once in
	// statusInterval, half as often as its status may be written.
	statusStep     = 50
	statusTime     = 10 * time.Second
	statusInterval = 2 * time.Second
	// mostStatuses are more than two cores have ever kept up with.
	mostStatuses = 1000
	// oldestStatus is how old a status may be. The operator writes it a second after the change if few change, and 10 seconds
	// after it at the latest.
	oldestStatus = 5 * time.Second
)

// measureStatuses raises the number of ScaledJobs that get a message every other second, until a status is older than
// oldestStatus: it does not count a message, or its Job, that came earlier.
func measureStatuses(ctx context.Context, log io.Writer, s *setting, _ sizes) (result []comparison, err error) {
	var changing crowd
	kept, age, cores := 0.0, time.Duration(0), 0.0
	for len(changing) < mostStatuses {
		more, err := s.newCrowd(ctx, fmt.Sprintf("status-%d", len(changing)), s.redis.Addr(), statusStep, asItIs)
		if err != nil {
			return nil, err
		}
		changing = append(changing, more...)
		if err := errors.Join(changing.await(ctx, checked), scene.Pause(ctx, settleTime)); err != nil {
			return nil, err
		}
		rate := float64(len(changing)) / statusInterval.Seconds()
		oldest, used, err := s.changeAll(ctx, changing)
		if err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(log, "%.0f ScaledJobs change a second: the oldest status is %.2f s old, CPU of the API server %.2f cores\n",
			rate, oldest.Seconds(), used)
		if oldest > oldestStatus {
			break
		}
		kept, age, cores = rate, oldest, used
	}
	if kept == 0 {
		return nil, fmt.Errorf("a status was older than %s with the fewest ScaledJobs", oldestStatus)
	}
	work := fmt.Sprintf("ScaledJobs that change while no status is older than %s", oldestStatus)
	return []comparison{
		alone(work, "/s", kept),
		alone("meanwhile: oldest status", "s", age.Seconds()),
		alone("meanwhile: CPU of the API server", "cores", cores),
	}, errors.Join(changing.remove(ctx), s.ours.clear(ctx))
}

// changeAll has all of them change for statusTime, and returns the age of the oldest status, and the cores that the API
// server used.
func (s *setting) changeAll(ctx context.Context, changing crowd) (oldest time.Duration, cores float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	seen, err := s.watchAges(ctx, changing)
	if err != nil {
		return 0, 0, err
	}
	before, err := s.apiServerSeconds(ctx)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	for i := 0; time.Since(begun) < statusTime; i++ {
		if err := scene.Pause(ctx, time.Until(begun.Add(statusInterval*time.Duration(i)/time.Duration(len(changing))))); err != nil {
			return 0, 0, err
		}
		if err := seen.push(ctx, changing[i%len(changing)]); err != nil {
			return 0, 0, err
		}
	}
	took := time.Since(begun)
	after, err := s.apiServerSeconds(ctx)
	if err != nil {
		return 0, 0, err
	}
	if oldest, err = seen.wait(ctx); err != nil {
		return 0, 0, err
	}
	return oldest, (after - before) / took.Seconds(), errors.Join(changing.checkSeen(), changing.empty(ctx), s.ours.clear(ctx))
}

// ages notes for how long each message, and its Job, is missing in the status of its ScaledJob.
type ages struct {
	mu sync.Mutex
	// pushed are the times of the messages of each ScaledJob, and told is how many of them its status tells of.
	pushed map[string][]time.Time
	told   map[string]int
	left   int
	oldest time.Duration
	// done is told when nothing is left.
	done chan struct{}
}

// watchAges looks at the statuses until ctx ends.
func (s *setting) watchAges(ctx context.Context, of crowd) (*ages, error) {
	changes, err := s.ours.kube.Watch(ctx, &scaledjobv1.ScaledJobList{}, client.InNamespace(s.ours.sj.Namespace))
	if err != nil {
		return nil, fmt.Errorf("watching the ScaledJobs: %w", err)
	}
	members := of.byName()
	a := &ages{pushed: map[string][]time.Time{}, told: map[string]int{}, done: make(chan struct{}, 1)}
	go func() {
		for change := range changes.ResultChan() {
			if sj, ok := change.Object.(*scaledjobv1.ScaledJob); ok && members[sj.Name] != nil {
				a.note(sj, time.Now())
			}
		}
	}()
	return a, nil
}

func (a *ages) push(ctx context.Context, to *contender) error {
	a.mu.Lock()
	a.pushed[to.sj.Name] = append(a.pushed[to.sj.Name], time.Now())
	a.left++
	a.mu.Unlock()
	_, err := to.push(ctx, 1)
	return err
}

func (a *ages) note(sj *scaledjobv1.ScaledJob, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sj.Status.QueueDepth == nil {
		return
	}
	all := a.pushed[sj.Name]
	tells := min(int(min(*sj.Status.QueueDepth, int64(sj.Status.ActiveJobs))), len(all))
	for _, pushed := range all[min(a.told[sj.Name], tells):tells] {
		a.oldest = max(a.oldest, at.Sub(pushed))
		a.left--
		a.told[sj.Name]++
	}
	if a.left == 0 {
		select {
		case a.done <- struct{}{}:
		default:
		}
	}
}

// wait returns the age of the oldest status, once all tell of all.
func (a *ages) wait(ctx context.Context) (time.Duration, error) {
	for {
		a.mu.Lock()
		left, oldest := a.left, a.oldest
		a.mu.Unlock()
		if left == 0 {
			return oldest, nil
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for statuses that tell of %d messages: %w", left, ctx.Err())
		}
	}
}
