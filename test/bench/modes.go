// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// besideStandalone is the operator itself, for a queue on a single server.
const besideStandalone besides = "Standalone"

// measureModes pushes single messages to queues behind sentinels and in a Redis Cluster, and compares the time until the
// new Job is seen with that of a queue on a single server.
func measureModes(ctx context.Context, log io.Writer, s *setting, size sizes) (all []comparison, err error) {
	behind, err := redistest.StartReplicated(ctx, redistest.ReplicatedOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, behind.Stop()) }()
	inside, err := redistest.StartSharded(ctx, redistest.ShardedOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, inside.Stop()) }()
	queues, err := s.inModes(ctx, behind, inside)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(log, "pushing %d messages in each mode, one at a time …\n", size.samples)
	times, err := queues.oneAtATime(ctx, size.samples)
	if err != nil {
		return nil, err
	}
	for i, member := range queues[1:] {
		work := fmt.Sprintf("push → Job seen, mode %s, ", member.sj.Spec.Redis.Mode)
		all = append(all,
			comparison{work: work + "p50", unit: "ms", figures: ofQuantiles(times[0], times[i+1], 0.5), beside: besideStandalone},
			comparison{work: work + "p99", unit: "ms", figures: ofQuantiles(times[0], times[i+1], 0.99), beside: besideStandalone})
	}
	if err := errors.Join(scene.Pause(ctx, settleTime), queues.check(ctx), queues.remove(ctx), queues[0].empty(ctx)); err != nil {
		return nil, err
	}
	return all, s.ours.deleteJobs(ctx)
}

// inModes makes a ScaledJob for a single server, one behind sentinels, and one in a Cluster.
func (s *setting) inModes(ctx context.Context, behind *redistest.Replicated, inside *redistest.Sharded) (queues crowd, err error) {
	inCluster := s.ours.another("inside")
	owner, err := inside.Owner(ctx, inside.Nodes[0], inCluster.sj.Spec.QueueName)
	if err != nil {
		return nil, err
	}
	for _, each := range []struct {
		name   string
		server *redistest.Server
		access *scaledjobv1.Redis
	}{
		{"single", s.redis, &scaledjobv1.Redis{Mode: scaledjobv1.RedisStandalone, Addresses: []string{s.redis.Addr()}}},
		{"behind", behind.Servers[0], &scaledjobv1.Redis{
			Mode: scaledjobv1.RedisSentinel, Addresses: behind.Addresses(),
			Sentinel: &scaledjobv1.RedisSentinelAccess{MasterName: redistest.MasterName},
		}},
		{inCluster.sj.Name, owner, &scaledjobv1.Redis{Mode: scaledjobv1.RedisCluster, Addresses: inside.Addresses()[:1]}},
	} {
		member, err := s.ours.beside(ctx, each.name, func(spec *scaledjobv1.ScaledJobSpec) { spec.RedisAddress, spec.Redis = "", each.access })
		if err != nil {
			return nil, err
		}
		member.queue = each.server.Client()
		queues = append(queues, member)
	}
	return queues, queues.await(ctx, heard)
}

// oneAtATime pushes single messages to all in turns, and returns the milliseconds until the Job of each is seen.
func (c crowd) oneAtATime(ctx context.Context, samples int) (times [][]float64, err error) {
	times = make([][]float64, len(c))
	for i := range warmUpSamples + samples {
		for turn := range c {
			at := (i + turn) % len(c)
			if err := scene.Pause(ctx, about(meanGap)); err != nil {
				return nil, err
			}
			took, err := c[at].serve(ctx, 1)
			if err != nil {
				return nil, err
			}
			if i >= warmUpSamples {
				times[at] = append(times[at], inMilliseconds(took))
			}
		}
	}
	return times, nil
}
