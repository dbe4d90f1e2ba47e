// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/progress"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// restTime is how long the operator is watched while nothing happens, and resyncInterval how often each queue is read
	// meanwhile: the default of pollingIntervalSeconds.
	restTime       = time.Minute
	resyncInterval = 30 * time.Second
	// restartPushes come to ScaledJobs at even distances when the operator or the server starts again.
	restartPushes = 20
	// scaleSamplesPart of the samples of the latency are taken with each number of ScaledJobs.
	scaleSamplesPart = 2
	// collectionTime is longer than Go lets pass between two collections of garbage.
	collectionTime = 2*time.Minute + 5*time.Second
)

// scaleCosts are what so many ScaledJobs cost.
type scaleCosts struct {
	count int
	// creating and writing are how many seconds bare loops take to create the ScaledJobs, and to write as many statuses.
	// ready is how many seconds it takes from the first create until all ScaledJobs are Ready, with the operator.
	creating, writing, ready float64
	// untilReady and untilRest are the writes of the status of each ScaledJob.
	untilReady, untilRest float64
	// resident and live are bytes of memory: of the process, and of the Go objects in use.
	resident, live float64
	// cores and commands are at rest: CPU, and commands per second that a server runs. rested is when the rest began.
	cores, commands float64
	rested          time.Time
	latency         latencies
	// goroutines is how many the operator has before there are ScaledJobs.
	goroutines float64
	// operator and server are how many seconds after their start the last Job of some pushes is seen.
	operator, server float64
}

// measureScale takes what each number of ScaledJobs costs that share a server. The operator starts anew for each.
func measureScale(ctx context.Context, log io.Writer, s *setting, size sizes) (all []comparison, err error) {
	f, err := s.newFleet(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	var one *scaleCosts
	for _, count := range size.scale {
		f.shown = progress.Start(log, fmt.Sprintf("scale, %d ScaledJobs", count))
		costs, err := f.costs(ctx, count, max(2, size.samples/scaleSamplesPart))
		f.shown.Stop()
		if err != nil {
			return nil, fmt.Errorf("with %d ScaledJobs: %w", count, err)
		}
		if one == nil {
			one = costs
		}
		all = append(all, costs.compare(one)...)
	}
	return all, nil
}

// costs takes everything with this number of ScaledJobs, and leaves nothing behind.
func (f *fleet) costs(ctx context.Context, count, samples int) (*scaleCosts, error) {
	c := &scaleCosts{count: count}
	err := c.take(ctx,
		f.bareLoops,
		f.becomeReady,
		f.atRest,
		func(ctx context.Context, c *scaleCosts) error { return f.pushes(ctx, c, samples) },
		f.inUse,
		func(ctx context.Context, _ *scaleCosts) error { return f.clear(ctx, f.spread(samples)) },
		f.restartOperator,
		func(ctx context.Context, _ *scaleCosts) error {
			return errors.Join(f.clear(ctx, f.spread(restartPushes)), f.subscribed(ctx))
		},
		f.restartServer)
	if err != nil {
		return nil, err
	}
	return c, errors.Join(f.end(ctx), f.disband(ctx))
}

// take takes one step after the other.
func (c *scaleCosts) take(ctx context.Context, steps ...func(context.Context, *scaleCosts) error) error {
	for _, step := range steps {
		if err := step(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// bareLoops creates the ScaledJobs and writes a status of each, with no operator at work, and deletes them again. Both are
// watched, as when the operator is at work.
func (f *fleet) bareLoops(ctx context.Context, c *scaleCosts) error {
	f.populate(c.count)
	seen, err := f.newReadiness(ctx)
	if err != nil {
		return err
	}
	write, err := f.bareWrite(ctx)
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() { written <- seen.all(ctx, "seeing the statuses", seen.ready) }()
	began := time.Now()
	if err := f.create(ctx); err != nil {
		return err
	}
	c.creating = time.Since(began).Seconds()
	began = time.Now()
	if err := errors.Join(f.each(ctx, "writing statuses", write), <-written); err != nil {
		return err
	}
	c.writing = time.Since(began).Seconds()
	return f.disband(ctx)
}

// bareWrite writes the status that a ScaledJob which is Ready has, as the operator does and with its rights.
func (f *fleet) bareWrite(ctx context.Context) (func(context.Context, *contender) error, error) {
	access, err := f.setting.control.ServiceAccountConfig(ctx, operator.Namespace, operator.ServiceAccount)
	if err != nil {
		return nil, err
	}
	api, err := operator.NewClient(access)
	if err != nil {
		return nil, err
	}
	if err := (crowd{f.setting.ours}).await(ctx, heard); err != nil {
		return nil, err
	}
	var example scaledjobv1.ScaledJob
	if err := api.Get(ctx, client.ObjectKeyFromObject(f.setting.ours.sj), &example); err != nil {
		return nil, err
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&example.Status)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, member *contender) error {
		intent := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		intent.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
		intent.SetNamespace(member.sj.Namespace)
		intent.SetName(member.sj.Name)
		intent.SetUID(member.sj.UID)
		return api.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(intent),
			client.FieldOwner("scaledjob-operator"), client.ForceOwnership)
	}, nil
}

// becomeReady creates the ScaledJobs while the operator is at work, and waits until all hear of messages at once.
func (f *fleet) becomeReady(ctx context.Context, c *scaleCosts) (err error) {
	f.populate(c.count)
	if err := f.start(ctx); err != nil {
		return err
	}
	if c.goroutines, err = f.goroutines(ctx); err != nil {
		return err
	}
	before, err := statusWrites(ctx, f.setting.control.Config())
	if err != nil {
		return err
	}
	seen, err := f.newReadiness(ctx)
	if err != nil {
		return err
	}
	began, created := time.Now(), make(chan error, 1)
	go func() { created <- f.create(ctx) }()
	if err := errors.Join(seen.all(ctx, "becoming Ready", seen.ready), <-created); err != nil {
		return err
	}
	c.ready = time.Since(began).Seconds()
	until := func(each *float64) error {
		now, err := statusWrites(ctx, f.setting.control.Config())
		*each = float64(now-before) / float64(c.count)
		return err
	}
	if err := until(&c.untilReady); err != nil {
		return err
	}
	return errors.Join(seen.all(ctx, "verifying notifications", seen.hearing), scene.Pause(ctx, settleTime), until(&c.untilRest))
}

// atRest takes the CPU time and the commands of the operator while it reads each queue every 30 seconds and does
// nothing else, and then the memory of the process. Nobody reads its metrics before that: this takes CPU time and memory
// too.
func (f *fleet) atRest(ctx context.Context, c *scaleCosts) error {
	f.shown.Status("watching the operator at rest")
	pid := f.running.PID()
	c.rested = time.Now()
	before, err := cpuTime(pid)
	if err != nil {
		return err
	}
	c.commands, err = commandsOf(ctx, f.servers[0].Client(), func(ctx context.Context) (int, error) { return 0, scene.Pause(ctx, restTime) })
	if err != nil {
		return err
	}
	after, err := cpuTime(pid)
	if err != nil {
		return err
	}
	c.cores = (after - before) / time.Since(c.rested).Seconds()
	c.resident, err = residentBytes(pid)
	return err
}

// inUse takes the memory of the Go objects in use, after the rest and the single messages: by then garbage was usually
// collected.
func (f *fleet) inUse(ctx context.Context, c *scaleCosts) (err error) {
	c.live, err = f.liveHeap(ctx, c.rested)
	return err
}

// liveHeap returns the size of the objects that the last collection of garbage found in use: one since then, and not
// while the metrics were read, which takes memory too.
func (f *fleet) liveHeap(ctx context.Context, since time.Time) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	for {
		asked := time.Now()
		all, err := f.running.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		collected := time.Unix(0, int64(all["go_memstats_last_gc_time_seconds"]*float64(time.Second)))
		if collected.After(since) && collected.Before(asked) {
			return all["go_gc_heap_live_bytes"], nil
		}
		f.shown.Status("waiting for the next collection of garbage")
		since = time.Now()
		if err := scene.Pause(ctx, collectionTime); err != nil {
			return 0, fmt.Errorf("waiting for a collection of garbage: %w", err)
		}
	}
}

// pushes takes the latency of single messages to ScaledJobs at even distances, in turns with the floor.
func (f *fleet) pushes(ctx context.Context, c *scaleCosts, samples int) error {
	touched := f.spread(samples)
	for i := range warmUpSamples + samples {
		f.shown.Status("pushing single messages, %d of %d", i+1, warmUpSamples+samples)
		for _, to := range []struct {
			*contender
			times *[]float64
		}{{f.setting.floor, &c.latency.floor}, {touched[i%len(touched)], &c.latency.ours}} {
			if err := scene.Pause(ctx, about(meanGap)); err != nil {
				return err
			}
			took, err := to.serve(ctx, 1)
			if err != nil {
				return err
			}
			if i >= warmUpSamples {
				*to.times = append(*to.times, inMilliseconds(took))
			}
		}
	}
	return errors.Join(scene.Pause(ctx, settleTime), touched.check(ctx), f.setting.floor.check(ctx), f.setting.floor.clear(ctx))
}

// restartOperator has messages come while no operator is at work.
func (f *fleet) restartOperator(ctx context.Context, c *scaleCosts) error {
	f.shown.Status("starting the operator again")
	if err := f.end(ctx); err != nil {
		return err
	}
	touched, err := f.pushSome(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := f.start(ctx); err != nil {
		return err
	}
	c.operator, err = touched.lastJob(ctx, began)
	return err
}

// restartServer has messages come as soon as the server answers again. It was empty before, and is now.
func (f *fleet) restartServer(ctx context.Context, c *scaleCosts) error {
	f.shown.Status("starting Redis again")
	if err := f.servers[0].Restart(ctx); err != nil {
		return err
	}
	began := time.Now()
	touched, err := f.pushSome(ctx)
	if err != nil {
		return err
	}
	if c.server, err = touched.lastJob(ctx, began); err != nil {
		return err
	}
	return errors.Join(f.subscribed(ctx), f.clear(ctx, touched))
}

// pushSome pushes single messages to ScaledJobs at even distances.
func (f *fleet) pushSome(ctx context.Context) (crowd, error) {
	touched := f.spread(restartPushes)
	for i := range restartPushes {
		if _, err := touched[i%len(touched)].push(ctx, 1); err != nil {
			return nil, err
		}
	}
	return touched, nil
}

// lastJob waits until each has a Job for each of its messages, and returns how many seconds passed until then.
func (c crowd) lastJob(ctx context.Context, since time.Time) (longest float64, err error) {
	for _, member := range c {
		last, err := member.nth(ctx, member.pushed)
		if err != nil {
			return 0, err
		}
		longest = max(longest, last.at.Sub(since).Seconds())
	}
	return longest, nil
}
