// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

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
	var goroutines, connections float64
	err = c.take(ctx,
		f.becomeReady,
		f.atRest,
		func(ctx context.Context, c *scaleCosts) (err error) {
			goroutines, connections, err = f.forEachServer(ctx, c)
			return err
		},
		func(ctx context.Context, c *scaleCosts) error {
			return f.pushes(ctx, c, max(2, size.samples/scaleSamplesPart))
		},
		f.inUse,
		f.restartOperator)
	if err != nil {
		return nil, err
	}
	all = append(c.ofServers(),
		alone(workOfServers("goroutines for each"), "", goroutines),
		alone(workOfServers("connections to each at rest"), "", connections))
	return all, errors.Join(f.end(ctx), f.disband(ctx))
}

// ofServers tells what the servers cost.
func (c *scaleCosts) ofServers() []comparison {
	work := workOfServers
	all := []comparison{alone(work("first create → all Ready"), "s", c.ready)}
	all = append(all, c.resting(work)...)
	all = append(all, alone(work("commands at rest, each server"), "/s", c.commands))
	all = append(all, c.reaction(work)...)
	return append(all, alone(work(afterRestart), "s", c.operator))
}

func workOfServers(what string) string {
	return fmt.Sprintf("%d Redis servers, a ScaledJob each: %s", manyServers, what)
}

// forEachServer returns how many goroutines and connections the operator has for each server.
func (f *fleet) forEachServer(ctx context.Context, c *scaleCosts) (goroutines, connections float64, err error) {
	now, err := f.goroutines(ctx)
	if err != nil {
		return 0, 0, err
	}
	info, err := f.servers[0].Client().InfoMap(ctx, "clients").Result()
	if err != nil {
		return 0, 0, err
	}
	clients, err := strconv.Atoi(info["Clients"]["connected_clients"])
	return (now - c.goroutines) / manyServers, float64(clients - 1), err // One connection is that of the benchmark.
}

// goroutines returns how many the operator has.
func (f *fleet) goroutines(ctx context.Context) (float64, error) {
	all, err := f.running.Metrics(ctx)
	return all["go_goroutines"], err
}
