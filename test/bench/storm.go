// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// storms are how many pushes per second come to one queue at its limit, and how much CPU the operator may take.
var storms = []struct {
	perSecond int
	mostCores float64
}{{20_000, 0.08}, {100_000, 0.25}}

// storms has each storm come to a queue that has just got to its limit. Unlike during a flood, nothing else happens
// meanwhile: nobody reads the metrics, and there are no other ScaledJobs.
func (s *setting) storms(ctx context.Context, log io.Writer) (all []comparison, err error) {
	for _, storm := range storms {
		_, _ = fmt.Fprintf(log, "pushing %d messages a second to a queue at its limit for %s …\n", storm.perSecond, stormTime)
		seen, err := s.storm(ctx, storm.perSecond)
		if err != nil {
			return nil, err
		}
		work := fmt.Sprintf("storm of %d pushes/s to one saturated queue, %s: ", storm.perSecond, stormTime)
		all = append(all,
			alone(work+"pushes", "/s", seen.pushes),
			within(work+"CPU", "cores", storm.mostCores, seen.cores),
			within(work+"status writes", "/s", mostWrites, seen.writes))
	}
	return all, nil
}

func (s *setting) storm(ctx context.Context, perSecond int) (seen flooding, err error) {
	// A key that has had too many notifications is not subscribed to for a while, so that each storm has one of its own.
	full, err := s.newCrowd(ctx, fmt.Sprintf("storm-%d", perSecond), s.redis.Addr(), 1, saturated)
	if err != nil {
		return flooding{}, err
	}
	if err := s.saturate(ctx, full); err != nil {
		return flooding{}, err
	}
	seen, err = s.watchPushes(ctx, full, perSecond, stormTime, func() error { return nil })
	return seen, errors.Join(err, full.remove(ctx), s.ours.clear(ctx), s.redis.Client().FlushAll(ctx).Err())
}
