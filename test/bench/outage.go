// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/tcpproxy"
)

const (
	// holes servers never answer, and holeUsers ScaledJobs name each.
	holes, holeUsers = 10, 5
	// holeTurns is how often they do, and do not.
	holeTurns = 2
	// deadUsers ScaledJobs name a dead server. In its first minute it is dialled at most so often.
	deadUsers, mostDials = 200, 15
	firstMinute          = time.Minute
)

// frequent is a ScaledJob that looks at its queue often.
func frequent(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = 5 }

// measureIsolation pushes single messages to the operator's queue, in turns while the servers of other ScaledJobs answer and while they
// do not.
func measureIsolation(ctx context.Context, log io.Writer, s *setting, size sizes) (result []comparison, err error) {
	var proxies []*tcpproxy.Proxy
	var crowds []crowd
	defer func() {
		for _, c := range crowds {
			err = errors.Join(err, c.remove(ctx))
		}
		for _, proxy := range proxies {
			err = errors.Join(err, proxy.Close())
		}
	}()
	for i := range holes {
		proxy, err := tcpproxy.Start(s.redis.Addr())
		if err != nil {
			return nil, err
		}
		proxies = append(proxies, proxy)
		c, err := s.newCrowd(ctx, fmt.Sprintf("neighbour-%d", i), proxy.Addr(), holeUsers, frequent)
		if err != nil {
			return nil, err
		}
		crowds = append(crowds, c)
	}
	var healthy, broken []float64
	for turn := range holeTurns {
		_, _ = fmt.Fprintf(log, "pushing %d messages while %d other servers answer, and while they don't, turn %d of %d …\n",
			size.samples/holeTurns, holes, turn+1, holeTurns)
		for _, hold := range []bool{false, true} {
			if err := switchAll(ctx, proxies, crowds, hold); err != nil {
				return nil, err
			}
			times, err := s.ours.sample(ctx, size.samples/holeTurns)
			if err != nil {
				return nil, err
			}
			if hold {
				broken = append(broken, times...)
			} else {
				healthy = append(healthy, times...)
			}
		}
	}
	return []comparison{
		{work: "push → Job seen, ten silent servers beside, p50", unit: "ms", figures: ofQuantiles(healthy, broken, 0.5), atMost: 2},
		{work: "push → Job seen, ten silent servers beside, p99", unit: "ms", figures: ofQuantiles(healthy, broken, 0.99), atMost: 2},
	}, s.checkAndClear(ctx)
}

// switchAll holds back all bytes of the neighbours' servers, or lets them pass, and returns when the operator has noticed.
func switchAll(ctx context.Context, proxies []*tcpproxy.Proxy, crowds []crowd, hold bool) error {
	noticed := reachable
	for _, proxy := range proxies {
		if hold {
			noticed = unreachable
			proxy.Hold(tcpproxy.Both)
		} else if err := proxy.Pass(); err != nil {
			return err
		}
	}
	for _, c := range crowds {
		if err := c.await(ctx, noticed); err != nil {
			return fmt.Errorf("waiting until the operator notices the neighbours' servers: %w", err)
		}
	}
	return pause(ctx, settleTime)
}

// sample pushes single messages and returns how many milliseconds each took to be a Job.
func (c *contender) sample(ctx context.Context, samples int) (times []float64, err error) {
	for range samples {
		if err := pause(ctx, time.Duration((0.5+rand.Float64())*float64(meanGap))); err != nil {
			return nil, err
		}
		took, err := c.serve(ctx, 1)
		if err != nil {
			return nil, err
		}
		times = append(times, float64(took)/float64(time.Millisecond))
	}
	return times, nil
}

// measureDials counts the connections to two servers in the first minute in which many ScaledJobs name them: one resets each, one never
// answers.
func measureDials(ctx context.Context, log io.Writer, s *setting, _ sizes) (result []comparison, err error) {
	_, _ = fmt.Fprintf(log, "counting dials to two dead servers that %d ScaledJobs name each …\n", deadUsers)
	for _, dead := range []struct {
		name, does, upstream string
		silent               bool
	}{
		{name: "resetting", does: "resets", upstream: "127.0.0.1:1"},
		{name: "silent", does: "never answers", upstream: s.redis.Addr(), silent: true},
	} {
		proxy, err := tcpproxy.Start(dead.upstream)
		if err != nil {
			return nil, err
		}
		if dead.silent {
			proxy.Hold(tcpproxy.Both)
		}
		dials, err := s.countDials(ctx, dead.name, proxy)
		if err := errors.Join(err, proxy.Close()); err != nil {
			return nil, err
		}
		work := fmt.Sprintf("%d ScaledJobs of a server that %s: dials in its first minute", deadUsers, dead.does)
		result = append(result, within(work, "dials", mostDials, float64(dials)))
	}
	return result, nil
}

func (s *setting) countDials(ctx context.Context, name string, dead *tcpproxy.Proxy) (dials int, err error) {
	begun := time.Now()
	c, err := s.newCrowd(ctx, name, dead.Addr(), deadUsers, frequent)
	if err != nil {
		return 0, err
	}
	err = errors.Join(c.await(ctx, unreachable), pause(ctx, time.Until(begun.Add(firstMinute))))
	return dead.Dials(), errors.Join(err, c.remove(ctx))
}
