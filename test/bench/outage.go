// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
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

// neighbour is a server that may be silent, and the ScaledJobs that name it.
type neighbour struct {
	proxy *tcpproxy.Proxy
	users crowd
}

// measureIsolation pushes single messages to the operator's queue, in turns while the servers of other ScaledJobs
// answer and while they do not.
func measureIsolation(ctx context.Context, log io.Writer, s *setting, size sizes) (result []comparison, err error) {
	var neighbours []neighbour
	defer func() {
		for _, n := range neighbours {
			err = errors.Join(err, n.users.remove(ctx), n.proxy.Close())
		}
	}()
	for i := range holes {
		n, err := s.newNeighbour(ctx, fmt.Sprintf("neighbour-%d", i))
		if err != nil {
			return nil, err
		}
		neighbours = append(neighbours, n)
	}
	times := map[bool][]float64{} // by whether they are silent
	for turn := range holeTurns {
		_, _ = fmt.Fprintf(log, "pushing %d messages while %d other servers answer, and while they don't, turn %d of %d …\n",
			size.samples/holeTurns, holes, turn+1, holeTurns)
		for _, silent := range []bool{false, true} {
			if err := switchAll(ctx, neighbours, silent); err != nil {
				return nil, err
			}
			sampled, err := s.ours.sample(ctx, size.samples/holeTurns)
			if err != nil {
				return nil, err
			}
			times[silent] = append(times[silent], sampled...)
		}
	}
	const work, beside = "push → Job seen, ten silent servers beside, ", "ten servers that answer"
	return []comparison{
		{work: work + "p50", unit: "ms", figures: ofQuantiles(times[false], times[true], 0.5), atMost: 2, beside: beside},
		{work: work + "p99", unit: "ms", figures: ofQuantiles(times[false], times[true], 0.99), atMost: 2, beside: beside},
	}, s.checkAndClear(ctx)
}

func (s *setting) newNeighbour(ctx context.Context, name string) (neighbour, error) {
	proxy, err := tcpproxy.Start(s.redis.Addr())
	if err != nil {
		return neighbour{}, err
	}
	users, err := s.newCrowd(ctx, name, proxy.Addr(), holeUsers, frequent)
	if err != nil {
		return neighbour{}, errors.Join(err, proxy.Close())
	}
	return neighbour{proxy, users}, nil
}

// switchAll holds back all bytes of the neighbours' servers, or lets them pass, and returns when the operator has
// noticed.
func switchAll(ctx context.Context, neighbours []neighbour, hold bool) error {
	noticed := reachable
	for _, n := range neighbours {
		if hold {
			noticed = unreachable
			n.proxy.Hold(tcpproxy.Both)
		} else if err := n.proxy.Pass(); err != nil {
			return err
		}
	}
	for _, n := range neighbours {
		if err := n.users.await(ctx, noticed); err != nil {
			return fmt.Errorf("waiting until the operator notices the neighbours' servers: %w", err)
		}
	}
	return scene.Pause(ctx, settleTime)
}

// sample pushes single messages and returns how many milliseconds each took to be a Job.
func (c *contender) sample(ctx context.Context, samples int) (times []float64, err error) {
	for range samples {
		if err := scene.Pause(ctx, about(meanGap)); err != nil {
			return nil, err
		}
		took, err := c.serve(ctx, 1)
		if err != nil {
			return nil, err
		}
		times = append(times, inMilliseconds(took))
	}
	return times, nil
}

// measureDials counts the connections to two servers in the first minute in which many ScaledJobs name them: one resets
// each, one never answers.
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
	err = errors.Join(c.await(ctx, unreachable), scene.Pause(ctx, time.Until(begun.Add(firstMinute))))
	return dead.Dials(), errors.Join(err, c.remove(ctx))
}
