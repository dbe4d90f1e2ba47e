// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/keda"
	"miracle.dev/scaledjob-operator/test/kit/progress"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// settleTime is how long a subject is given to create Jobs that nobody asked for.
	settleTime = 2 * time.Second
	// meanGap is the mean time between a sample and the next push, to the other one. In it the first one reports what it
	// did. The gaps vary, so that samples do not fall into step with anything periodic.
	meanGap = 100 * time.Millisecond
	// burstSize messages are in a burst.
	burstSize = 1000
	// Each of many queues gets one message within fanOutTime.
	fanOutTime = time.Second

	median, tail = 0.5, 0.99
)

// pair is the minimal loop and a rival, which is the operator or KEDA. They take turns with the same work, because
// other load affects both.
type pair struct {
	*setting

	rival *subject
	// interval is that between two polls of the rival. It is 0 for the operator, which does not poll.
	interval time.Duration
	shown    *progress.Line
}

// values are those that were measured of each.
type values map[*subject][]float64

func (v values) add(more map[*subject]float64) {
	for of, value := range more {
		v[of] = append(v[of], value)
	}
}

// inTurn are both. In every other turn the other one is the first.
func (p *pair) inTurn(turn int) subjects {
	if turn%2 == 0 {
		return subjects{p.loop, p.rival}
	}
	return subjects{p.rival, p.loop}
}

// pause lasts longer by this offset before a turn of the rival.
func (p *pair) pause(ctx context.Context, of *subject, duration, offset time.Duration) error {
	if of != p.loop {
		duration += offset
	}
	return sjtest.Pause(ctx, duration)
}

// latency pushes single messages to the loop and to these ScaledJobs of the rival, which has the first one. It returns
// how many milliseconds passed until the new Job was seen, and the surplus of both.
func (p *pair) latency(ctx context.Context, to subjects, samples int) (took, surplus values, err error) {
	const warmUpPart = 20
	warmUp := samples / warmUpPart
	offsets := offsets(warmUp+samples, p.interval)
	took, extra := values{}, map[*subject]float64{}
	for i, offset := range offsets {
		p.shown.Status("message %d of %d", i+1, len(offsets))
		for _, of := range p.inTurn(i) {
			if err := p.pause(ctx, of, about(meanGap), offset); err != nil {
				return nil, nil, err
			}
			served := of
			if of == p.rival {
				served = to[i%len(to)]
			}
			more, err := p.adopt(ctx, served)
			if err != nil {
				return nil, nil, err
			}
			extra[of] += more
			lasted, err := served.serve(ctx, 1)
			if err != nil {
				return nil, nil, err
			}
			if i >= warmUp {
				took[of] = append(took[of], inMilliseconds(lasted))
			}
		}
	}
	late, err := p.finish(ctx, map[*subject]subjects{p.rival: to[1:]})
	surplus = values{}
	surplus.add(map[*subject]float64{p.loop: extra[p.loop] + late[p.loop], p.rival: extra[p.rival] + late[p.rival]})
	return took, surplus, err
}

// adopt returns how many surplus Jobs KEDA has created so far, and pushes messages for them: KEDA takes a surplus Job
// for that of the next message.
func (p *pair) adopt(ctx context.Context, of *subject) (extra float64, err error) {
	jobs, err := p.surplus(of, nil)
	if err != nil || jobs <= 0 {
		return 0, err
	}
	_, err = of.push(ctx, jobs)
	return float64(jobs), err
}

// bursts pushes many messages at once to an empty queue, and returns how many Jobs there were per second in each round,
// and the surplus of both. The order of the rounds is random, so that the API server does not collect garbage in the
// turns of the same one each time.
func (p *pair) bursts(ctx context.Context, rounds, warmUp int) (rates, surplus values, err error) {
	rates, surplus = values{}, values{}
	turns, offsets := rand.Perm(warmUp+rounds), offsets(warmUp+rounds, p.interval)
	for i, turn := range turns {
		for _, of := range p.inTurn(turn) {
			p.shown.Status("burst of %d, round %d of %d", burstSize, i+1, len(turns))
			if err := p.pause(ctx, of, settleTime, offsets[i]); err != nil {
				return nil, nil, err
			}
			took, err := of.serve(ctx, burstSize)
			if err != nil {
				return nil, nil, err
			}
			if i >= warmUp {
				rates[of] = append(rates[of], burstSize/took.Seconds())
			}
		}
		extra, err := p.finish(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		surplus.add(extra)
	}
	return rates, surplus, nil
}

// fanOut pushes one message to each of many queues, each with a ScaledJob of its own. It returns how many milliseconds
// passed until the Job of each was seen, for each round, and the surplus of both.
func (p *pair) fanOut(
	ctx context.Context, queues, rounds int, tracked bool,
) (took map[*subject][][]float64, surplus values, err error) {
	const name = "fanout"
	shape := asItIs
	if tracked {
		shape = func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsTracking }
	}
	p.shown.Status("creating %d ScaledJobs for each", queues)
	others := map[*subject]subjects{}
	for _, of := range p.inTurn(0) {
		if others[of], err = of.siblings(ctx, name, queues, shape); err != nil {
			return nil, nil, err
		}
	}
	process, err := p.runLoop("grow", name)
	if err != nil {
		return nil, nil, err
	}
	took, surplus = map[*subject][][]float64{}, values{}
	err = others[p.loop].each(ctx, (*subject).subscribed)
	if tracked {
		err = errors.Join(err, others[p.rival].proveTracking(ctx))
	}
	err = errors.Join(err, p.awaitRest(ctx, others[p.rival]))
	for round, offset := range offsets(rounds, p.interval) {
		if err != nil {
			break
		}
		p.shown.Status("a message to each of %d queues, round %d of %d", queues, round+1, rounds)
		err = errors.Join(p.fanOutRound(ctx, round, offset, others, took, surplus), errorOf(ctx, process))
	}
	if err = errors.Join(err, process.Kill()); err != nil {
		return nil, nil, err
	}
	return took, surplus, errors.Join(p.remove(ctx, p.loop, others[p.loop]), p.remove(ctx, p.rival, others[p.rival]))
}

// proveTracking waits until Redis tracks the keys, which a first change of one of them proves: a push and a pop in one
// transaction, for which no Job is due.
func (all subjects) proveTracking(ctx context.Context) error {
	return all.await(ctx, func(status scaledjobv1.ScaledJobStatus) bool {
		if status.Mode == scaledjobv1.ModeTracking {
			return true
		}
		change := all[0].queue.TxPipeline()
		change.LPush(ctx, all[0].sj.Spec.QueueName, "probe")
		change.LPop(ctx, all[0].sj.Spec.QueueName)
		_, _ = change.Exec(ctx) // The next status has it repeated.
		return false
	})
}

func (p *pair) fanOutRound(
	ctx context.Context, round int, offset time.Duration, others map[*subject]subjects, took map[*subject][][]float64, surplus values,
) error {
	for _, of := range p.inTurn(round) {
		if err := p.pause(ctx, of, settleTime, offset); err != nil {
			return err
		}
		times, err := others[of].serveOneEach(ctx)
		if err != nil {
			return err
		}
		took[of] = append(took[of], times)
		if of == p.operator { // Its statuses are not to meet the other one.
			if err := others[of].await(ctx, func(status scaledjobv1.ScaledJobStatus) bool { return status.ActiveJobs == 1 }); err != nil {
				return err
			}
		}
	}
	extra, err := p.finish(ctx, others)
	surplus.add(extra)
	return err
}

// serveOneEach pushes one message to each queue, spread evenly over the time of a round, and returns how many
// milliseconds passed until the Job of each was seen.
func (all subjects) serveOneEach(ctx context.Context) (took []float64, err error) {
	pushed := make([]time.Time, len(all))
	began := time.Now()
	for i, each := range all {
		if err := sjtest.Pause(ctx, time.Until(began.Add(fanOutTime*time.Duration(i)/time.Duration(len(all))))); err != nil {
			return nil, err
		}
		if pushed[i], err = each.push(ctx, 1); err != nil {
			return nil, err
		}
	}
	for i, each := range all {
		job, err := each.nth(ctx, each.pushed)
		if err != nil {
			return nil, err
		}
		took = append(took, inMilliseconds(job.at.Sub(pushed[i])))
	}
	return took, nil
}

// finish takes all messages and Jobs of both and of these other ScaledJobs away. It returns their surplus, after the
// time in which more Jobs could come: until the rival has polled once more.
func (p *pair) finish(ctx context.Context, others map[*subject]subjects) (surplus map[*subject]float64, err error) {
	if err := sjtest.Pause(ctx, p.interval+settleTime); err != nil {
		return nil, err
	}
	surplus = map[*subject]float64{}
	for _, of := range p.inTurn(0) {
		jobs, err := p.surplus(of, others[of])
		if err != nil {
			return nil, err
		}
		surplus[of] = float64(jobs)
		if err := p.clear(ctx, of, others[of]); err != nil {
			return nil, err
		}
	}
	return surplus, nil
}

// surplus is that of a subject and of these others. Only KEDA may have any.
func (p *pair) surplus(of *subject, others subjects) (jobs int, err error) {
	jobs = of.surplus() + others.surplus()
	if jobs != 0 && (p.interval == 0 || of.name == p.loop.name) {
		return 0, fmt.Errorf("%s is not exact: it has created %+d Jobs more than there were messages", of.name, jobs)
	}
	return jobs, nil
}

// clear takes all messages and Jobs of a subject away, and returns when it knows.
func (p *pair) clear(ctx context.Context, of *subject, others subjects) error {
	if err := errors.Join(of.empty(ctx), others.each(ctx, (*subject).empty)); err != nil {
		return err
	}
	if of != p.rival {
		return of.deleteJobs(ctx)
	}
	if p.interval == 0 {
		return errors.Join(of.deleteJobs(ctx), p.awaitRest(ctx, others))
	}
	// Otherwise KEDA could create Jobs for messages that are gone. Its cache has no Jobs either after a moment.
	return errors.Join(p.awaitRest(ctx, others), of.deleteJobs(ctx), sjtest.Pause(ctx, settleTime))
}

// awaitRest waits until the rival is at work for its ScaledJob and for these others, knows of no message, and the
// operator, which counts, of no Job.
func (p *pair) awaitRest(ctx context.Context, others subjects) error {
	if p.interval > 0 {
		return p.awaitKEDA(ctx, len(others)+1)
	}
	return append(slices.Clone(others), p.rival).await(ctx, func(status scaledjobv1.ScaledJobStatus) bool {
		return immediate(status) && status.QueueDepth != nil && *status.QueueDepth == 0 && status.ActiveJobs == 0
	})
}

// immediate says whether the operator notices messages at once.
func immediate(status scaledjobv1.ScaledJobStatus) bool {
	return status.Mode == scaledjobv1.ModeEvents || status.Mode == scaledjobv1.ModeTracking
}

// awaitKEDA waits until there are so many ScaledJobs, and KEDA knows that none has a message.
func (p *pair) awaitKEDA(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	atRest := 0
	err := wait.PollUntilContextCancel(ctx, listInterval, true, func(ctx context.Context) (bool, error) {
		list := keda.List()
		if err := p.rival.kube.List(ctx, list, client.InNamespace(p.rival.sj.Namespace)); err != nil {
			return false, err
		}
		atRest = 0
		for i := range list.Items {
			if keda.AtRest(&list.Items[i]) {
				atRest++
			}
		}
		p.shown.Status("%d of %d ScaledJobs are at rest", atRest, count)
		return len(list.Items) == count && atRest == count, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for KEDA, with %d of %d ScaledJobs at rest: %w", atRest, count, err)
	}
	return nil
}

// remove deletes further ScaledJobs of a subject. KEDA has to agree to that.
func (p *pair) remove(ctx context.Context, of *subject, others subjects) error {
	if err := others.each(ctx, (*subject).remove); err != nil || of == p.loop || p.interval == 0 {
		return err
	}
	return p.awaitKEDA(ctx, 1)
}

// offsets divides the interval into equal parts, and returns a random time in each of them, in random order. Even few
// of them have the time until the next poll that is usual on average.
func offsets(count int, interval time.Duration) []time.Duration {
	all := make([]time.Duration, count)
	for i, part := range rand.Perm(count) {
		all[i] = time.Duration((float64(part) + rand.Float64()) / float64(count) * float64(interval))
	}
	return all
}

// about is a random duration of this mean, and of half of it at least.
func about(mean time.Duration) time.Duration {
	return time.Duration((0.5 + rand.Float64()) * float64(mean))
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile is the smallest value that at least the given part of the values, of which there is one or more, do not
// exceed.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(part * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
