// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// measureTracking measures latency, bursts and a flood again while the server tracks the key of ours instead of
// announcing its changes. The floor stays subscribed.
func measureTracking(ctx context.Context, log io.Writer, s *setting, size sizes) ([]comparison, error) {
	if err := s.ours.hearBy(ctx, scaledjobv1.NotificationsTracking, scaledjobv1.ModeTracking); err != nil {
		return nil, err
	}
	latency, err := measureLatency(ctx, log, s, size)
	if err != nil {
		return nil, err
	}
	bursts, err := measureBursts(ctx, log, s, size)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(latency, bursts)
	for i := range all {
		all[i].work += ", key tracked"
	}
	flood, err := s.flood(ctx, log, 1, func(spec *scaledjobv1.ScaledJobSpec) {
		saturated(spec)
		tracked(spec)
	})
	if err != nil {
		return nil, err
	}
	work := fmt.Sprintf("one saturated queue, %d pushes/s, key tracked: ", pushesPerSecond)
	all = append(all, alone(work+"pushes", "/s", flood.pushes))
	all = append(all, within(work+"CPU", "cores", mostCores, flood.cores), within(work+"status writes", "/s", mostWrites, flood.writes))
	return all, s.ours.hearBy(ctx, scaledjobv1.NotificationsEnabled, scaledjobv1.ModeEvents)
}

// tracked has the server track the keys.
func tracked(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsTracking }

// hearBy changes the source of events of the contender, and waits for the mode. A first change of the key proves the
// tracking.
func (c *contender) hearBy(ctx context.Context, source scaledjobv1.NotificationMode, mode scaledjobv1.ScalingMode) error {
	before := c.sj.DeepCopy()
	c.sj.Spec.Notifications = source
	if err := c.kube.Patch(ctx, c.sj, client.MergeFrom(before)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := c.touch(ctx, c.sj.Spec.QueueName); err != nil {
			return false, err
		}
		var now scaledjobv1.ScaledJob
		err := c.kube.Get(ctx, client.ObjectKeyFromObject(c.sj), &now)
		return now.Status.Mode == mode, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the mode of %s is %s: %w", c.name, mode, err)
	}
	return nil
}

// touchCommands is how many commands touch runs.
const touchCommands = 4

// touch changes a key: No Job is due for a push and a pop in one transaction.
func (c *contender) touch(ctx context.Context, key string) error {
	pipe := c.queue.TxPipeline()
	pipe.LPush(ctx, key, "probe")
	pipe.LPop(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("touching the queue: %w", err)
	}
	return nil
}
