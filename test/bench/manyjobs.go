// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/progress"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// jobOwners ScaledJobs have jobsEach unfinished Jobs.
const jobOwners, jobsEach = 100, 1_000

// pushSpacing keeps the pushes of jobsEach messages below what a namespace may announce in a second.
const pushSpacing = 250 * time.Millisecond

// measureJobs takes what it costs to have very many Jobs.
func measureJobs(ctx context.Context, log io.Writer, s *setting, size sizes) (all []comparison, err error) {
	f, err := s.newFleet(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	f.owner.patience = fleetPatience
	f.shown = progress.Start(log, fmt.Sprintf("%d Jobs", jobOwners*jobsEach))
	defer f.shown.Stop()
	c := &scaleCosts{count: jobOwners}
	err = c.take(ctx,
		f.becomeReady,
		f.createJobs,
		f.atRest,
		func(ctx context.Context, c *scaleCosts) error {
			return f.pushes(ctx, c, max(2, size.samples/scaleSamplesPart))
		},
		f.inUse,
		f.restartOperator,
		func(ctx context.Context, _ *scaleCosts) error {
			return errors.Join(scene.Pause(ctx, settleTime), f.members.check(ctx))
		})
	if err != nil {
		return nil, err
	}
	return c.ofJobs(), errors.Join(f.end(ctx), f.disband(ctx))
}

// createJobs pushes as many messages to each queue as it is to have Jobs, and waits for them, and until the operator hears
// of messages at once.
func (f *fleet) createJobs(ctx context.Context, c *scaleCosts) error {
	began := time.Now()
	for _, member := range f.members {
		if _, err := member.push(ctx, jobsEach); err != nil {
			return err
		}
		if err := scene.Pause(ctx, pushSpacing); err != nil {
			return err
		}
	}
	for i, member := range f.members {
		f.shown.Status("waiting for the Jobs of %d of %d ScaledJobs", i+1, len(f.members))
		if _, err := member.nth(ctx, jobsEach); err != nil {
			return err
		}
	}
	c.creating = time.Since(began).Seconds()
	return errors.Join(f.subscribed(ctx), f.members.await(ctx, heard), scene.Pause(ctx, settleTime))
}

// ofJobs tells what the Jobs cost.
func (c *scaleCosts) ofJobs() []comparison {
	const jobs = jobOwners * jobsEach
	work := func(what string) string { return fmt.Sprintf("%d Jobs of %d ScaledJobs: %s", jobs, jobOwners, what) }
	all := []comparison{alone(work("created"), "Jobs/s", jobs/c.creating)}
	all = append(all, c.resting(work)...)
	all = append(all, c.reaction(work)...)
	return append(all, alone(work(afterRestart), "s", c.operator))
}
