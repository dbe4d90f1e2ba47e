// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const median, tail = 0.5, 0.99

// newTally has the works in the order of the table, with no values.
func newTally(size sizes) *tally {
	t := &tally{}
	for _, work := range slices.Concat(
		latencyWorks(), []tallied{surplusWork()}, burstWorks(size), fanOutWorks(size), churnWorks(size), stormWorks(size),
	) {
		t.add(work, loopName)
	}
	return t
}

func latencyWorks() []tallied {
	return []tallied{
		{name: "push → Job seen, p50", unit: "ms", part: median},
		{name: "push → Job seen, p99", unit: "ms", part: tail},
	}
}

func surplusWork() tallied {
	return tallied{name: "single messages, Jobs too many", part: median, rounds: true}
}

// latency pushes single messages at times that have nothing to do with those of the polls.
func (p *stage) latency(ctx context.Context) error {
	const warmUpPart = 20
	warmUp := p.samples() / warmUpPart
	after, extra := offsets(warmUp+p.samples(), p.interval), map[*contender]float64{}
	for i := range after {
		for _, c := range p.both(i) {
			p.shown.Status("message %d of %d", i+1, len(after))
			gap := about(meanGap)
			if c == p.of {
				gap += after[i]
			}
			if err := scene.Pause(ctx, gap); err != nil {
				return err
			}
			// A surplus Job is not the Job of the next message.
			more, err := p.adopt(ctx, c)
			if err != nil {
				return err
			}
			extra[c] += more
			took, err := c.serve(ctx, 1)
			if err != nil {
				return err
			}
			for _, work := range latencyWorks() {
				if i >= warmUp {
					p.found.add(work, p.column(c), inMilliseconds(took))
				}
			}
		}
	}
	return p.finish(ctx, extra)
}

// adopt returns how many surplus Jobs KEDA has created so far, and pushes messages for them: KEDA takes a surplus Job for
// that of the next message.
func (p *stage) adopt(ctx context.Context, c *contender) (extra float64, err error) {
	extra, err = p.surplus(c, nil)
	if err != nil || extra <= 0 {
		return 0, err
	}
	_, err = c.push(ctx, int(extra))
	return extra, err
}

// finish counts the surplus Jobs of both, after the time in which more could come, and clears their queues.
func (p *stage) finish(ctx context.Context, extra map[*contender]float64) error {
	p.shown.Status("clearing")
	if err := p.settle(ctx); err != nil {
		return err
	}
	for _, c := range p.both(0) {
		more, err := p.surplus(c, nil)
		if err != nil {
			return err
		}
		p.found.add(surplusWork(), p.column(c), extra[c]+more)
	}
	return errors.Join(p.clear(ctx, p.floor, nil), p.clear(ctx, p.of, nil))
}

// offsets are so many times below the interval, one in each of as many equal parts of it, in random order: with few of
// them, the time until the next poll is as it is on average.
func offsets(count int, interval time.Duration) []time.Duration {
	all := make([]time.Duration, count)
	for i, part := range rand.Perm(count) {
		all[i] = time.Duration((float64(part) + rand.Float64()) / float64(count) * float64(interval))
	}
	return all
}

func burstWorks(size sizes) []tallied {
	name := fmt.Sprintf("burst of %d", size.burst)
	return []tallied{
		{name: name, unit: "Jobs/s", part: median, rounds: true},
		{name: name + ", Jobs too many", part: median, rounds: true},
	}
}

// burst pushes many messages at once to an empty queue.
func (p *stage) burst(ctx context.Context) error {
	works := burstWorks(p.size)
	for round, after := range offsets(p.rounds(), p.interval) {
		for _, c := range p.both(round) {
			p.shown.Status("burst of %d, round %d of %d", p.size.burst, round+1, p.rounds())
			if err := errors.Join(scene.Pause(ctx, settleTime), p.pauseFor(ctx, c, after)); err != nil {
				return err
			}
			times, err := c.burst(ctx, p.size.burst)
			if err != nil {
				return err
			}
			p.found.add(works[0], p.column(c), float64(p.size.burst)/slices.Max(times)*millisecondsPerSecond)
		}
		if err := p.settle(ctx); err != nil {
			return err
		}
		for _, c := range p.both(round) {
			extra, err := p.surplus(c, nil)
			if err != nil {
				return err
			}
			p.found.add(works[1], p.column(c), extra)
			if err := p.clear(ctx, c, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// pauseFor moves the beginning of the rival's turn by so much from its polls.
func (p *stage) pauseFor(ctx context.Context, c *contender, offset time.Duration) error {
	if c != p.of {
		return nil
	}
	return scene.Pause(ctx, offset)
}

func fanOutWorks(size sizes) []tallied {
	name := fmt.Sprintf("%d queues get a message each within %s", size.queues, fanOutTime)
	return []tallied{
		{name: name + ", p50", unit: "ms", part: median, rounds: true},
		{name: name + ", p99", unit: "ms", part: median, rounds: true},
		{name: name + ", Jobs too many", part: median, rounds: true},
	}
}

// fanOut pushes one message to each of many queues, each with a ScaledJob of its own.
func (p *stage) fanOut(ctx context.Context) (err error) {
	p.shown.Status("creating %d ScaledJobs for each", p.size.queues)
	crowds := map[*contender]crowd{}
	for _, c := range p.both(0) {
		if crowds[c], err = c.crowd(ctx, fanOutName, p.redis.Addr(), p.size.queues, asItIs); err != nil {
			return err
		}
	}
	process, err := p.runFloorFor("fanout", p.floor.sj.Namespace, fanOutName)
	if err != nil {
		return err
	}
	err = errors.Join(crowds[p.floor].subscribed(ctx), p.awaitRest(ctx, crowds[p.of]))
	for round, after := range offsets(p.rounds(), p.interval) {
		if err != nil {
			break
		}
		p.shown.Status("a message to each of %d queues, round %d of %d", p.size.queues, round+1, p.rounds())
		err = errors.Join(p.fanOutRound(ctx, round, after, crowds), endOf(ctx, process))
	}
	if err := errors.Join(err, process.Kill()); err != nil {
		return err
	}
	return errors.Join(p.remove(ctx, crowds[p.floor], 1), p.remove(ctx, crowds[p.of], 1))
}

func (p *stage) fanOutRound(ctx context.Context, round int, after time.Duration, crowds map[*contender]crowd) error {
	works := fanOutWorks(p.size)
	for _, c := range p.both(round) {
		if err := p.pauseFor(ctx, c, after); err != nil {
			return err
		}
		times, err := crowds[c].serveOneEach(ctx)
		if err != nil {
			return err
		}
		p.found.add(works[0], p.column(c), quantile(times, median))
		p.found.add(works[1], p.column(c), quantile(times, tail))
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	for _, c := range p.both(round) {
		extra, err := p.surplus(c, crowds[c])
		if err != nil {
			return err
		}
		p.found.add(works[2], p.column(c), extra)
		if err := p.clear(ctx, c, crowds[c]); err != nil {
			return err
		}
	}
	return nil
}

func stormWorks(size sizes) []tallied {
	name := fmt.Sprintf("%d pushes/s to a queue at its limit, %s", pushesPerSecond, size.storm)
	return []tallied{
		{name: name + ", CPU", unit: "cores", part: median, rounds: true},
		{name: name + ", pushes", unit: "/s", part: median, rounds: true},
	}
}

// storm pushes very often to a queue that is at its limit. The minimal loop has no limit.
func (p *stage) storm(ctx context.Context) error {
	for round := range p.rounds() {
		p.shown.Status("%d messages a second, round %d of %d", pushesPerSecond, round+1, p.rounds())
		full, err := p.of.beside(ctx, fmt.Sprintf("storm-%d", round), saturated)
		if err != nil {
			return err
		}
		if err := p.awaitRest(ctx, crowd{full}); err != nil {
			return err
		}
		seen, err := p.stormOn(ctx, full)
		if err != nil {
			return err
		}
		works := stormWorks(p.size)
		p.found.add(works[0], p.name, seen.cores)
		p.found.add(works[1], p.name, seen.pushes)
		// The operator does not listen to a key for a while that changed too often, so that there is no rest before the end.
		err = errors.Join(full.empty(ctx), p.remove(ctx, crowd{full}, 1), p.clear(ctx, p.of, nil))
		if err != nil {
			return err
		}
	}
	return nil
}

// stormOn tells what the storm costs the rival.
func (p *stage) stormOn(ctx context.Context, full *contender) (flooding, error) {
	if _, err := full.serve(ctx, int(saturatedLimit)); err != nil {
		return flooding{}, err
	}
	if err := p.settle(ctx); err != nil {
		return flooding{}, err
	}
	before, err := cpuTime(p.pid)
	if err != nil {
		return flooding{}, err
	}
	begun := time.Now()
	pushed, err := p.pour(ctx, []string{full.sj.Spec.QueueName}, pushesPerSecond, p.size.storm, func() error { return nil })
	if err != nil {
		return flooding{}, err
	}
	took := time.Since(begun).Seconds()
	after, err := cpuTime(p.pid)
	return flooding{pushes: float64(pushed) / took, cores: (after - before) / took}, err
}
