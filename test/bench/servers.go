// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// manyServers are the Redis servers of as many ScaledJobs.
const manyServers = 100

// measureServers takes what ScaledJobs cost that have a Redis server each.
func measureServers(ctx context.Context, log io.Writer, s *setting, size sizes) (all []comparison, err error) {
	f, err := s.newFleet(ctx, manyServers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	f.shown = progress.Start(log, fmt.Sprintf("%d Redis servers", manyServers))
	defer f.shown.Stop()
	c := &scaleCosts{count: manyServers}
	err = c.take(ctx,
		f.becomeReady,
		f.atRest,
		func(ctx context.Context, c *scaleCosts) error {
			return f.pushes(ctx, c, max(2, size.samples/scaleSamplesPart))
		},
		f.inUse,
		f.restartOperator)
	if err != nil {
		return nil, err
	}
	return c.ofServers(), errors.Join(f.end(ctx), f.disband(ctx))
}

// ofServers tells what the servers cost.
func (c *scaleCosts) ofServers() []comparison {
	work := func(what string) string { return fmt.Sprintf("%d Redis servers, a ScaledJob each: %s", c.count, what) }
	all := []comparison{alone(work("first create → all Ready"), "s", c.ready)}
	all = append(all, c.resting(work)...)
	all = append(all, alone(work("commands at rest, each server"), "/s", c.commands))
	all = append(all, c.reaction(work)...)
	return append(all, alone(work(afterRestart), "s", c.operator))
}
