// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// fairBurst messages come at once, and during them one message to each of fairOthers ScaledJobs. There are
	// fairRounds of that.
	fairBurst, fairOthers, fairRounds = 5000, 50, 4
	// fairGap is the mean time between single messages. A round of them takes no longer than the burst.
	fairGap = 40 * time.Millisecond
	// mostAdded is how many milliseconds longer than the Job of the loop a Job may take next to a burst.
	mostAdded = 50
)

// measureFairness has a burst come to one ScaledJob of the operator, and meanwhile single messages to its others and,
// in turns with those, to the loop. The operator makes the Jobs of the burst, so that the API server and the machine
// are as busy for both. The loop has nothing else to do: what the operator takes longer is what its own queueing adds.
func measureFairness(ctx context.Context, p *pair, _ choices) (all []results.Figure, err error) {
	others, err := p.rival.siblings(ctx, "single", fairOthers, asItIs)
	if err != nil {
		return nil, err
	}
	checked := func(status scaledjobv1.ScaledJobStatus) bool {
		return apimeta.IsStatusConditionTrue(status.Conditions, scaledjobv1.ConditionTemplateValid)
	}
	if err := others.await(ctx, checked); err != nil {
		return nil, err
	}
	took := values{}
	for i := range fairRounds {
		p.shown.Status("%d messages at once, and single ones meanwhile, round %d of %d", fairBurst, i+1, fairRounds)
		if err := p.pushDuringBurst(ctx, others, took); err != nil {
			return nil, err
		}
		if _, err := p.finish(ctx, map[*subject]subjects{p.rival: others}); err != nil {
			return nil, err
		}
	}
	for _, q := range []struct {
		name string
		part float64
	}{{"p50", median}, {"p99", tail}, {"longest", 1}} {
		reference, ours := quantile(took[p.loop], q.part), quantile(took[p.rival], q.part)
		figure := results.Compare(fmt.Sprintf("push → Job seen next to a burst of %d, %s", fairBurst, q.name), "ms", reference, ours)
		figure.Most = figure.Reference + mostAdded
		all = append(all, figure)
	}
	return all, p.remove(ctx, p.rival, others)
}

// single is one message, the n-th of a subject.
type single struct {
	to     *subject
	n      int
	pushed time.Time
}

// pushDuringBurst adds the milliseconds that the Jobs of single messages took which came while Jobs of the burst were
// made.
func (p *pair) pushDuringBurst(ctx context.Context, others subjects, took values) error {
	var lasted time.Duration
	var singles []single
	begun := time.Now()
	both, pushing := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		lasted, err = p.rival.serve(pushing, fairBurst)
		return err
	})
	both.Go(func() (err error) {
		singles, err = p.pushSingles(pushing, others)
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	for _, message := range singles {
		job, err := message.to.nth(ctx, message.n)
		if err != nil {
			return err
		}
		if message.pushed.After(begun.Add(lasted)) {
			continue
		}
		of := p.rival
		if message.to == p.loop {
			of = p.loop
		}
		took[of] = append(took[of], inMilliseconds(job.at.Sub(message.pushed)))
	}
	if len(took[p.loop]) == 0 || len(took[p.rival]) == 0 {
		return errors.New("the burst was over before a single message came")
	}
	return nil
}

// pushSingles pushes to the loop and to one of the others in turns. It does not wait for the Jobs.
func (p *pair) pushSingles(ctx context.Context, others subjects) (singles []single, err error) {
	for _, other := range others {
		for _, to := range []*subject{p.loop, other} {
			if err := sjtest.Pause(ctx, about(fairGap)); err != nil {
				return nil, err
			}
			pushed, err := to.push(ctx, 1)
			if err != nil {
				return nil, err
			}
			singles = append(singles, single{to, to.pushed, pushed})
		}
	}
	return singles, nil
}
