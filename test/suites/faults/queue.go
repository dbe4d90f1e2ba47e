// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// never is a polling interval that no fault lives to see the end of.
	never = 3600
	// forcedPasses are made over a ScaledJob to see that nothing more comes of it,
	// restPasses follow on them by the resync.
	forcedPasses = 100
	restPasses   = 3
	// burst is how many passes are asked for before they are counted.
	burst = 10
	// calm is for how long there must be no pass for the operator to be at rest.
	calm = 1500 * time.Millisecond
)

// Queue is a list in Redis, the ScaledJob that names it, and the witness of its
// Jobs, none of which ever finishes. Each message is due one Job. Its methods
// must not be called concurrently.
type Queue struct {
	Object  *scaledjobv1.ScaledJob // as created
	Witness *witness.Witness

	setting *Setting
	target  *Target
	// expected is how many Jobs there should be, as of the last time that it was
	// asked. It does not fall, because Jobs stay.
	expected int
	// ready is how many Pods of the first Job are, as nudge has said.
	ready int

	mu sync.Mutex
	// depth is at most how long the list is, and peak how long it ever was.
	depth, peak int
}

// newQueue makes a ScaledJob with an empty queue on the target.
func newQueue(ctx context.Context, setting *Setting, target *Target, object *scaledjobv1.ScaledJob) (*Queue, error) {
	q := &Queue{Object: object, setting: setting, target: target}
	if err := setting.API.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("creating ScaledJob %s: %w", object.Name, err)
	}
	var err error
	q.Witness, err = witness.Summon(ctx, setting.Control.Config(), object, q.limit)
	return q, err
}

func (q *Queue) key() client.ObjectKey { return client.ObjectKeyFromObject(q.Object) }

// channel is what the server publishes on when the queue changes.
func (q *Queue) channel() string { return "__keyspace@0__:" + q.Object.Spec.QueueName }

// limit is how many Jobs may be unfinished.
func (q *Queue) limit() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.capped(q.peak)
}

func (q *Queue) capped(messages int) int {
	return min(messages, int(q.Object.Spec.MaxReplicasOrDefault()))
}

// Push adds messages one by one, past the proxy. It stops at the first that the
// server does not take, or not in time: then it may have taken that.
func (q *Queue) Push(ctx context.Context, messages int) error {
	for range messages {
		q.mu.Lock()
		q.depth++
		q.peak = max(q.peak, q.depth)
		q.mu.Unlock()
		if err := q.target.command(ctx, "LPUSH", q.Object.Spec.QueueName, "message"); err != nil {
			return err
		}
	}
	return nil
}

// Expected returns how many Jobs there should be by now, by what the server holds
// and has held.
func (q *Queue) Expected(ctx context.Context) (int, error) {
	depth, err := q.target.Server.Client().LLen(ctx, q.Object.Spec.QueueName).Result()
	if err != nil {
		return 0, fmt.Errorf("reading the depth of %s: %w", q.Object.Spec.QueueName, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.depth = int(depth)
	q.expected = max(q.expected, q.capped(q.depth))
	return q.expected, nil
}

// AwaitExpected returns nil once all Jobs are there that should be, and otherwise
// when ctx ends.
func (q *Queue) AwaitExpected(ctx context.Context) error {
	for {
		expected, err := q.Expected(ctx)
		if err == nil && q.Witness.Created() >= expected {
			return nil
		}
		if ended := scene.Pause(ctx, probeInterval); ended != nil {
			return fmt.Errorf("%d of %d Jobs of %s: %w", q.Witness.Created(), expected, q.Object.Name, ended)
		}
	}
}

// AwaitSubscription returns once somebody listens to the queue.
func (q *Queue) AwaitSubscription(ctx context.Context) error {
	channel := q.channel()
	for {
		listeners, err := q.target.Server.Client().PubSubNumSub(ctx, channel).Result()
		if err == nil && listeners[channel] > 0 {
			return nil
		}
		if err := scene.Pause(ctx, probeInterval); err != nil {
			return fmt.Errorf("waiting for a subscription to %s: %w", channel, err)
		}
	}
}

// AwaitRest returns once the operator makes no passes over the ScaledJob, and has
// no reason left to make one, so that none comes that nobody asked for.
func (q *Queue) AwaitRest(ctx context.Context) error {
	if err := q.awaitTemplate(ctx); err != nil {
		return err
	}
	last, since := -1, time.Now()
	for time.Since(since) < calm {
		passes, err := q.setting.passes(ctx, q.key())
		if err != nil {
			return err
		}
		if passes != last {
			last, since = passes, time.Now()
		}
		if err := scene.Pause(ctx, calm/10); err != nil {
			return fmt.Errorf("waiting until passes over %s end: %w", q.Object.Name, err)
		}
	}
	return nil
}

// Prove has the operator look many more times, and the resync come as well, and
// returns an error if a Job was created that was not due, or none that was.
func (q *Queue) Prove(ctx context.Context) error {
	if err := q.disturb(ctx); err != nil {
		return err
	}
	if err := q.resync(ctx); err != nil {
		return err
	}
	if err := q.Witness.CatchUp(ctx); err != nil {
		return err
	}
	if fault := q.Witness.Verdict(); fault != "" {
		return fmt.Errorf("ScaledJob %s: %s", q.Object.Name, fault)
	}
	expected, err := q.Expected(ctx)
	if created := q.Witness.Created(); err == nil && created != expected {
		err = fmt.Errorf("ScaledJob %s has got %d Jobs, and %d were due", q.Object.Name, created, expected)
	}
	return err
}

// disturb brings about passes by many nudges.
func (q *Queue) disturb(ctx context.Context) error {
	before, err := q.setting.passes(ctx, q.key())
	for done := before; err == nil && done < before+forcedPasses; {
		for range burst {
			if err := q.nudge(ctx); err != nil {
				return err
			}
		}
		done, err = q.setting.passes(ctx, q.key())
	}
	return err
}

// nudge has a Pod of a Job get ready, or unready. That wakes the operator and does
// not change how many Jobs are due.
func (q *Queue) nudge(ctx context.Context) error {
	jobs := q.Witness.Unfinished()
	if len(jobs) == 0 {
		return fmt.Errorf("ScaledJob %s has no Job to change", q.Object.Name)
	}
	q.ready = 1 - q.ready
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: q.Object.Namespace, Name: jobs[0]}}
	status := fmt.Appendf(nil, `{"status":{"active":1,"ready":%d}}`, q.ready)
	if err := q.setting.API.Status().Patch(ctx, job, client.RawPatch(types.MergePatchType, status)); err != nil {
		return fmt.Errorf("changing Job %s: %w", jobs[0], err)
	}
	return nil
}

// resync sets the shortest polling interval for a few passes.
func (q *Queue) resync(ctx context.Context) error {
	if err := q.setInterval(ctx, 1); err != nil {
		return err
	}
	before, err := q.setting.passes(ctx, q.key())
	for done := before; err == nil && done < before+restPasses; {
		if err := scene.Pause(ctx, calm/10); err != nil {
			return fmt.Errorf("waiting for the resync of %s: %w", q.Object.Name, err)
		}
		done, err = q.setting.passes(ctx, q.key())
	}
	if err != nil {
		return err
	}
	return q.setInterval(ctx, never)
}

func (q *Queue) setInterval(ctx context.Context, seconds int32) error {
	return q.patchSpec(ctx, `{"pollingIntervalSeconds":%d}`, seconds)
}

// patchSpec changes the spec of the ScaledJob by a JSON merge patch.
func (q *Queue) patchSpec(ctx context.Context, format string, args ...any) error {
	patch := fmt.Appendf(nil, `{"spec":`+format+`}`, args...)
	err := q.setting.API.Patch(ctx, q.Object.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if err != nil {
		return fmt.Errorf("changing ScaledJob %s: %w", q.Object.Name, err)
	}
	return nil
}

// remove deletes the ScaledJob, so that the operator listens no more.
func (q *Queue) remove(ctx context.Context) error {
	return client.IgnoreNotFound(q.setting.API.Delete(ctx, q.Object))
}
