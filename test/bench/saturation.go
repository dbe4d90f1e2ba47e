// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// saturatedLimit is the maxReplicas of a queue that is pushed to although it is at its limit.
	saturatedLimit  int32 = 2
	pushesPerSecond       = 20_000
	pushInterval          = 10 * time.Millisecond
	// mostPiped pushes, each a command of its own, are sent together.
	mostPiped = 500
	// manySaturated queues share the pushes, while idle others only have their resync.
	manySaturated, idle = 100, 50
	floodTime           = 30 * time.Second
	lookInterval        = 250 * time.Millisecond

	// stormTime is how long a storm lasts, which has nothing else beside it.
	stormTime = 10 * time.Second

	mostCores, mostWrites = 0.1, 1.0
	// mostIdle is twice the polling interval of the idle ones.
	mostIdle = 10 * time.Second
)

// saturated is a ScaledJob that is soon at its limit.
func saturated(spec *scaledjobv1.ScaledJobSpec) {
	limit := saturatedLimit
	spec.MaxReplicas = &limit
}

// flooding is what the operator did during a flood of messages to queues that are at their limit.
type flooding struct {
	pushes float64 // per second
	cores  float64
	writes float64 // of the status, per second and ScaledJob
	// oldest is for how many seconds the depth of some idle queue was not read.
	oldest float64
}

// measureSaturation floods one queue, and then many, which others must not notice.
func measureSaturation(ctx context.Context, log io.Writer, s *setting, _ sizes) ([]comparison, error) {
	one, err := s.flood(ctx, log, 1, saturated)
	if err != nil {
		return nil, err
	}
	many, err := s.flood(ctx, log, manySaturated, saturated)
	if err != nil {
		return nil, err
	}
	storms, err := s.storms(ctx, log)
	if err != nil {
		return nil, err
	}
	first := fmt.Sprintf("one saturated queue, %d pushes/s: ", pushesPerSecond)
	second := fmt.Sprintf("%d saturated queues, %d pushes/s together: ", manySaturated, pushesPerSecond)
	return append([]comparison{
		alone(first+"pushes", "/s", one.pushes),
		within(first+"CPU", "cores", mostCores, one.cores),
		within(first+"status writes", "/s", mostWrites, one.writes),
		alone(second+"pushes", "/s", many.pushes),
		{work: second + "CPU", unit: "cores", figures: figures{one.cores, many.cores, many.cores / one.cores}, beside: "one queue"},
		within(second+"status writes each", "/s", mostWrites, many.writes),
		within(fmt.Sprintf("%slongest time between reads of %d idle ones", second, idle), "s", mostIdle.Seconds(), many.oldest),
	}, storms...), nil
}

// flood pushes messages to queues that are at their limit, and watches what the operator does meanwhile.
func (s *setting) flood(
	ctx context.Context, log io.Writer, queues int, shape func(*scaledjobv1.ScaledJobSpec),
) (seen flooding, err error) {
	_, _ = fmt.Fprintf(log, "pushing %d messages a second to queues at their limit, of which there are %d …\n", pushesPerSecond, queues)
	full, err := s.newCrowd(ctx, "full", s.redis.Addr(), queues, shape)
	if err != nil {
		return flooding{}, err
	}
	others, err := s.newCrowd(ctx, "idle", s.redis.Addr(), idle, frequent)
	if err != nil {
		return flooding{}, err
	}
	if err := s.saturate(ctx, full); err != nil {
		return flooding{}, err
	}
	if err := others.await(ctx, reachable); err != nil {
		return flooding{}, err
	}
	seen, err = s.watchFlood(ctx, full)
	return seen, errors.Join(err, full.remove(ctx), others.remove(ctx), s.ours.clear(ctx), s.redis.Client().FlushAll(ctx).Err())
}

// saturate brings the queues to their limits, and waits until nothing more is to be told of that.
func (s *setting) saturate(ctx context.Context, full crowd) error {
	if err := s.push(ctx, full.queues(), int(saturatedLimit)*len(full)); err != nil {
		return err
	}
	err := full.await(ctx, func(status scaledjobv1.ScaledJobStatus) bool { return status.ActiveJobs == saturatedLimit })
	return errors.Join(err, scene.Pause(ctx, settleTime))
}

// watchFlood has the flood come.
func (s *setting) watchFlood(ctx context.Context, full crowd) (seen flooding, err error) {
	var oldest float64
	looked := time.Now()
	seen, err = s.watchPushes(ctx, full, pushesPerSecond, floodTime, func() error {
		if time.Since(looked) < lookInterval {
			return nil
		}
		looked = time.Now()
		now, err := s.oldestRead(ctx)
		oldest = max(oldest, now)
		return err
	})
	seen.oldest = oldest
	return seen, err
}

// watchPushes pushes so often to queues that are at their limit, and tells what that costs.
func (s *setting) watchPushes(
	ctx context.Context, full crowd, perSecond int, lasting time.Duration, meanwhile func() error,
) (flooding, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	writes, err := s.countStatusWrites(ctx, full)
	if err != nil {
		return flooding{}, err
	}
	before, err := cpuTime(s.running.PID())
	if err != nil {
		return flooding{}, err
	}
	begun := time.Now()
	pushed, err := s.pour(ctx, full.queues(), perSecond, lasting, meanwhile)
	if err != nil {
		return flooding{}, err
	}
	took := time.Since(begun).Seconds()
	after, err := cpuTime(s.running.PID())
	if err != nil {
		return flooding{}, err
	}
	written, err := writes()
	return flooding{
		pushes: float64(pushed) / took,
		cores:  (after - before) / took,
		// Between two writes there is a second at least, so the first of each counts for none.
		writes: max(0, float64(written)/float64(len(full))-1) / took,
	}, err
}

// pour pushes so often for so long.
func (s *setting) pour(
	ctx context.Context, queues []string, perSecond int, lasting time.Duration, meanwhile func() error,
) (pushed int, err error) {
	begun := time.Now()
	for time.Since(begun) < lasting {
		due := int(time.Since(begun).Seconds() * float64(perSecond))
		for pushed < due {
			some := min(due-pushed, mostPiped)
			if err := s.push(ctx, queues, some); err != nil {
				return 0, err
			}
			pushed += some
		}
		if err := errors.Join(meanwhile(), scene.Pause(ctx, pushInterval)); err != nil {
			return 0, err
		}
	}
	return pushed, nil
}

// push spreads messages over the queues.
func (s *setting) push(ctx context.Context, queues []string, messages int) error {
	pipeline := s.redis.Client().Pipeline()
	for i := range messages {
		pipeline.LPush(ctx, queues[i%len(queues)], "message")
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		return fmt.Errorf("pushing: %w", err)
	}
	return nil
}

// countStatusWrites counts the changes of the ScaledJobs, of which nobody changes anything but the status, until ctx
// ends. The count fails if the watch has ended before.
func (s *setting) countStatusWrites(ctx context.Context, of crowd) (count func() (int64, error), err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJobList"))
	changes, err := s.ours.kube.Watch(ctx, list, client.InNamespace(s.ours.sj.Namespace))
	if err != nil {
		return nil, fmt.Errorf("watching the ScaledJobs: %w", err)
	}
	var seen atomic.Int64
	var ended atomic.Bool
	members := of.byName()
	go func() {
		defer ended.Store(true)
		for change := range changes.ResultChan() {
			object, ok := change.Object.(*metav1.PartialObjectMetadata)
			if ok && change.Type == watch.Modified && members[object.Name] != nil {
				seen.Add(1)
			}
		}
	}()
	return func() (int64, error) {
		if ended.Load() {
			return 0, errors.New("the watch of the ScaledJobs has ended")
		}
		return seen.Load(), nil
	}, nil
}

// oldestRead is for how many seconds the depth of some idle queue was not read.
func (s *setting) oldestRead(ctx context.Context) (seconds float64, err error) {
	all, err := s.running.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	now, reads := float64(time.Now().UnixMilli())/1000, 0
	for series, read := range all {
		if strings.HasPrefix(series, lastRead+"{") && strings.Contains(series, `scaledjob="idle-`) {
			seconds = max(seconds, now-read)
			reads++
		}
	}
	if reads < idle {
		return 0, fmt.Errorf("the operator reports the reads of %d of %d idle queues", reads, idle)
	}
	return seconds, nil
}

const lastRead = "scaledjob_last_read_timestamp_seconds"
