// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
	"miracle.dev/scaledjob-operator/test/kit/workers"
)

const (
	trialMessages = 60
	trialLimit    = int32(20)
	// Messages come in bursts of up to mostAtOnce, with gaps of up to longestGap.
	mostAtOnce = 8
	longestGap = 4 * time.Second
	// trialGrace is longer than workers take from when they are ready until they have a message.
	trialGrace = int32(1)
	// keptPart is which part of the Jobs that have their messages Custom does not count, in percent.
	keptPart = int32(25)
	// trialPatience is for messages that have to wait until creating does not pause any more.
	trialPatience = 5 * time.Minute
)

// trialPace is that of all workers.
var trialPace = workers.Pace{
	StartUp: workers.Span{Least: 200 * time.Millisecond, Most: 600 * time.Millisecond},
	Claim:   workers.Span{Most: 300 * time.Millisecond},
	Work:    workers.Span{Least: 2 * time.Second, Most: 4 * time.Second},
}

// The names of the kinds of workers.
const (
	reliableList  = "moves to a second list"
	consumerGroup = "reads for a group"
	removeAtEnd   = "removes at the end"
	popAtStart    = "pops at the start"
)

// trial is a ScaledJob with workers of one kind, under one strategy.
type trial struct {
	strategy, kind string
	*workers.Staff

	member *contender
}

// strategy is one of those to try, on kinds of workers.
type strategy struct {
	name  string
	kinds []string
	shape func(*scaledjobv1.ScaledJobSpec)
	// lookInterval is how often the formula of KEDA looks, in place of the operator. 0 means not in place of it.
	lookInterval time.Duration
}

// strategies are those of the operator, and then what they are compared with: one Job for each message that waits, less
// all that are active, and the formula of KEDA that looks as often as KEDA can, and ten times as often.
func strategies() []strategy {
	all := []string{reliableList, consumerGroup, removeAtEnd, popAtStart}
	lists := []string{reliableList, popAtStart}
	return []strategy{
		{name: "Default", kinds: []string{reliableList, consumerGroup, removeAtEnd}, shape: scaled(scaledjobv1.StrategyDefault)},
		{name: "Accurate", kinds: all, shape: scaled(scaledjobv1.StrategyAccurate)},
		{name: "Custom", kinds: all, shape: scaled(scaledjobv1.StrategyCustom)},
		{name: "Eager", kinds: all, shape: scaled(scaledjobv1.StrategyEager)},
		{name: "waiting − active", kinds: lists, shape: waitingAlone},
		{name: "KEDA accurate, 1 s", kinds: lists, shape: waitingAlone, lookInterval: time.Second},
		{name: "KEDA accurate, 0.1 s", kinds: lists, shape: waitingAlone, lookInterval: time.Second / 10},
	}
}

// scaled has the ScaledJob follow a strategy of the operator.
func scaled(by scaledjobv1.ScalingStrategyType) func(*scaledjobv1.ScaledJobSpec) {
	grace := trialGrace
	strategy := scaledjobv1.ScalingStrategy{Type: by, ClaimGraceSeconds: &grace}
	if by == scaledjobv1.StrategyCustom {
		strategy.Custom = &scaledjobv1.CustomStrategy{RunningJobPercentage: keptPart}
	}
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.ScalingStrategy = strategy }
}

// waitingAlone has the ScaledJob count nothing that a worker has taken.
func waitingAlone(spec *scaledjobv1.ScaledJobSpec) {
	spec.Queues = slices.DeleteFunc(spec.Queues, func(q scaledjobv1.Queue) bool { return q.Role == scaledjobv1.RoleInProgress })
}

// measureStrategies has the same messages come to workers of each kind under each strategy, all at the same time, and
// prints how many Jobs that made and how long the messages waited.
func measureStrategies(ctx context.Context, log io.Writer, s *setting, _ sizes) ([]comparison, error) {
	events := redistest.DefaultEvents + "t"
	if err := s.redis.Client().ConfigSet(ctx, "notify-keyspace-events", events).Err(); err != nil {
		return nil, fmt.Errorf("turning on the notifications of streams: %w", err)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	group, working := errgroup.WithContext(working)
	trials, err := s.startTrials(working, group)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(log, "pushing %d messages to %d queues, a few at a time …\n", trialMessages, len(trials))
	err = errors.Join(pushToAll(working, trials), awaitServed(working, trials))
	if err == nil {
		tellOfLate(log, trials)
		err = errors.Join(printTrials(os.Stdout, trials), checkLimits(trials))
	}
	stop()
	return trialFigures(trials), errors.Join(err, group.Wait(), s.endTrials(ctx, trials))
}

// trialFigures are what printTrials prints.
func trialFigures(trials []*trial) (all []comparison) {
	for _, t := range trials {
		mean, longest := meanAndLast(t.Waits())
		for _, column := range []struct {
			name, unit string
			ours       float64
		}{
			{"Jobs", "", float64(t.Witness.Created())},
			{"wasted Jobs", "", float64(t.Wasted())},
			{"waiting time of a message, mean", "s", mean.Seconds()},
			{"waiting time of a message, longest", "s", longest.Seconds()},
		} {
			figure := alone(fmt.Sprintf("%s, a worker %s: %s", t.strategy, t.kind, column.name), column.unit, column.ours)
			figure.told = true
			all = append(all, figure)
		}
	}
	return all
}

// startTrials makes all trials, whose workers and scalers are at work until ctx ends.
func (s *setting) startTrials(ctx context.Context, group *errgroup.Group) (trials []*trial, err error) {
	for _, by := range strategies() {
		for _, kind := range by.kinds {
			t, err := s.newTrial(ctx, by, kind, fmt.Sprint("trial-", len(trials)))
			if err != nil {
				return nil, err
			}
			trials = append(trials, t)
			group.Go(func() error { return t.Work(ctx) })
			if by.lookInterval > 0 {
				scaler := t.scaler(by.lookInterval)
				group.Go(func() error { return scaler.Run(ctx) })
			}
		}
	}
	return trials, nil
}

// newTrial makes a ScaledJob of this name, and its workers. The operator knows it unless another is to scale it.
func (s *setting) newTrial(ctx context.Context, by strategy, kind, name string) (*trial, error) {
	messages, err := s.newKind(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	beside := s.ours
	if by.lookInterval > 0 {
		beside = s.floor
	}
	member, err := beside.beside(ctx, name, func(spec *scaledjobv1.ScaledJobSpec) {
		limit := trialLimit
		spec.MaxReplicas = &limit
		messages.Count(spec)
		by.shape(spec)
	})
	if err != nil {
		return nil, err
	}
	seen, err := witness.Start(ctx, s.control.Config(), member.sj, func() int { return int(trialLimit) })
	if err != nil {
		return nil, err
	}
	staff := &workers.Staff{Kind: messages, Pace: trialPace, API: member.kube, Namespace: member.sj.Namespace, Witness: seen}
	return &trial{strategy: by.name, kind: kind, Staff: staff, member: member}, nil
}

// newKind is the way of workers that has this name, on keys that begin with that of the trial.
func (s *setting) newKind(ctx context.Context, kind, trial string) (workers.Kind, error) {
	switch kind {
	case reliableList:
		return workers.ReliableList(s.redis.Client(), trial), nil
	case consumerGroup:
		return workers.ConsumerGroup(ctx, s.redis.Client(), trial)
	case removeAtEnd:
		return workers.RemoveAtEnd(s.redis.Client(), trial), nil
	default:
		return workers.PopAtStart(s.redis.Client(), trial), nil
	}
}

// scaler scales the ScaledJob by the formula of KEDA, from what waits in the one list that it names.
func (t *trial) scaler(interval time.Duration) *workers.AccurateScaler {
	list := t.member.sj.Spec.AllQueues()[0].Name
	return &workers.AccurateScaler{
		API: t.member.kube, Object: t.member.sj, Interval: interval,
		Waiting: func(ctx context.Context) (int64, error) { return t.member.queue.LLen(ctx, list).Result() },
	}
}

// pushToAll brings the same messages to all.
func pushToAll(ctx context.Context, trials []*trial) error {
	for left := trialMessages; left > 0; {
		if err := scene.Pause(ctx, rand.N(longestGap)); err != nil {
			return err
		}
		burst := min(left, 1+rand.IntN(mostAtOnce))
		for _, t := range trials {
			if err := t.Push(ctx, burst); err != nil {
				return err
			}
		}
		left -= burst
	}
	return nil
}

// awaitServed waits until all messages are served, and all Jobs have finished, and no other came for a while.
func awaitServed(ctx context.Context, trials []*trial) error {
	ctx, cancel := context.WithTimeout(ctx, trialPatience)
	defer cancel()
	for _, t := range trials {
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
			return t.Served() == trialMessages && len(t.Witness.Unfinished()) == 0, nil
		})
		if err != nil {
			return fmt.Errorf("%s has served %d messages, with %s: %w", t.kind, t.Served(), t.strategy, err)
		}
	}
	return scene.Pause(ctx, settleTime)
}

// tellOfLate tells of workers that were slower than their strategy takes for granted, because the machine was busy. For
// each of them a Job may have been made in vain.
func tellOfLate(log io.Writer, trials []*trial) {
	const grace = time.Duration(trialGrace) * time.Second
	for _, t := range trials {
		if late := t.Late(grace); late > 0 {
			_, _ = fmt.Fprintf(log, "%s, where a worker %s: %d took a message later than %s after they were ready\n",
				t.strategy, t.kind, late, grace)
		}
	}
}

// checkLimits fails if there were ever more Jobs at once than there may be.
func checkLimits(trials []*trial) error {
	for _, t := range trials {
		if fault := t.Witness.Verdict(); fault != "" {
			return fmt.Errorf("%s, where a worker %s: %s", t.strategy, t.kind, fault)
		}
	}
	return nil
}

// endTrials leaves nothing behind.
func (s *setting) endTrials(ctx context.Context, trials []*trial) error {
	for _, t := range trials {
		if err := t.member.remove(ctx); err != nil {
			return err
		}
	}
	return errors.Join(s.floor.clear(ctx), s.ours.clear(ctx))
}

// printTrials writes a table in Markdown.
func printTrials(out io.Writer, trials []*trial) error {
	var table strings.Builder
	_, _ = fmt.Fprintf(&table, "| strategy | a worker | messages | Jobs | of them in vain | a message waited, mean | longest |\n%s\n",
		"|---|---|---|---|---|---|---|")
	for _, t := range trials {
		mean, longest := meanAndLast(t.Waits())
		_, _ = fmt.Fprintf(&table, "| %s | %s | %d | %d | %d | %.2f s | %.2f s |\n",
			t.strategy, t.kind, t.Pushed(), t.Witness.Created(), t.Wasted(), mean.Seconds(), longest.Seconds())
	}
	_, err := io.WriteString(out, table.String())
	return err
}

// meanAndLast are the mean and the last of durations, and 0 of none.
func meanAndLast(durations []time.Duration) (mean, last time.Duration) {
	for _, last = range durations {
		mean += last
	}
	return mean / time.Duration(max(1, len(durations))), last
}
