// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// keyHolders ScaledJobs have keysEach keys each, which makes ten thousand.
	keyHolders, keysEach = 625, 16
	// keysTime is how long commands are counted, and changesPerSecond how many of the keys change while there is
	// something to hear of. Each change is a push and a pop.
	keysTime         = 30 * time.Second
	changesPerSecond = 1000
)

// measureKeys counts the commands that Redis runs for the operator while it watches ten thousand keys: at rest, where
// only the resync reads, and while a thousand of them change per second; by notifications, while the keys are tracked,
// and while they are polled every 5 seconds.
func measureKeys(ctx context.Context, log io.Writer, s *setting, _ sizes) (all []comparison, err error) {
	for _, source := range []struct {
		name  string
		shape func(*scaledjobv1.ScaledJobSpec)
		mode  scaledjobv1.ScalingMode
	}{
		{"by notifications", manyKeys, scaledjobv1.ModeEvents},
		{"tracked", func(spec *scaledjobv1.ScaledJobSpec) { manyKeys(spec); tracked(spec) }, scaledjobv1.ModeTracking},
		{"polled every 5 s", func(spec *scaledjobv1.ScaledJobSpec) { manyKeys(spec); polled(spec) }, scaledjobv1.ModePolling},
	} {
		_, _ = fmt.Fprintf(log, "watching %d keys, %s …\n", keyHolders*keysEach, source.name)
		holders, err := s.newCrowd(ctx, "holder", s.redis.Addr(), keyHolders, source.shape)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(holders.hear(ctx, source.mode), scene.Pause(ctx, settleTime)); err != nil {
			return nil, err
		}
		rest, err := commandsOf(ctx, s.redis.Client(), func(ctx context.Context) (int, error) { return 0, scene.Pause(ctx, keysTime) })
		if err != nil {
			return nil, err
		}
		busy, err := commandsOf(ctx, s.redis.Client(), holders.change)
		if err := errors.Join(err, holders.remove(ctx), s.ours.clear(ctx), s.redis.Client().FlushAll(ctx).Err()); err != nil {
			return nil, err
		}
		work := fmt.Sprintf("%d keys, %s: commands ", keyHolders*keysEach, source.name)
		all = append(all, alone(work+"at rest", "/s", rest),
			alone(fmt.Sprintf("%swhile %d keys change per second", work, changesPerSecond), "/s", busy))
	}
	return all, nil
}

// manyKeys gives the ScaledJob its keys. What touches them leaves no message behind.
func manyKeys(spec *scaledjobv1.ScaledJobSpec) {
	name := spec.QueueName
	spec.QueueName = ""
	for i := range keysEach {
		spec.Queues = append(spec.Queues, scaledjobv1.Queue{Name: name + "-" + strconv.Itoa(i)})
	}
}

func polled(spec *scaledjobv1.ScaledJobSpec) {
	const seconds = 5
	spec.Notifications, spec.PollingIntervalSeconds = scaledjobv1.NotificationsDisabled, seconds
}

// change has random keys change, and returns how many commands that took.
func (c crowd) change(ctx context.Context) (commands int, err error) {
	began := time.Now()
	for changed := 0; time.Since(began) < keysTime; {
		for ; changed < int(time.Since(began).Seconds()*changesPerSecond); changed++ {
			member := c[rand.IntN(len(c))]
			if err := member.touch(ctx, member.sj.Spec.Queues[rand.IntN(keysEach)].Name); err != nil {
				return 0, err
			}
			commands += touchCommands
		}
		if err := scene.Pause(ctx, pushInterval); err != nil {
			return 0, err
		}
	}
	return commands, nil
}

// commandsOf returns how many commands per second the server runs for others than the doer meanwhile.
func commandsOf(ctx context.Context, server *redis.Client, do func(context.Context) (own int, err error)) (perSecond float64, err error) {
	before, err := commands(ctx, server)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	own, err := do(ctx)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	after, err := commands(ctx, server)
	return float64(after-before-own) / took.Seconds(), err
}

// commands returns how many commands the server has run.
func commands(ctx context.Context, server *redis.Client) (int, error) {
	info, err := server.Info(ctx, "stats").Result()
	if err != nil {
		return 0, fmt.Errorf("counting commands: %w", err)
	}
	const name = "total_commands_processed:"
	lines := strings.Split(info, "\r\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, name) })
	if at < 0 {
		return 0, errors.New("the server does not tell how many commands it has run")
	}
	return strconv.Atoi(strings.TrimPrefix(lines[at], name))
}
