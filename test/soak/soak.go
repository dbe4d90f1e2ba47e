// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/faults"
)

const (
	servers = 3
	// Each server has queues whose workers keep up, and one that is at its limit all
	// the time.
	busyQueues                = 3
	busyLimit, saturatedLimit = 20, 5
	// The mean gaps between bursts of messages, and between Jobs that finish.
	busyGap, saturatedGap, workGap = 500 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond
	busyBurst, saturatedBurst      = 5, 50

	checkInterval    = time.Second
	progressInterval = 10 * time.Second
	// warmUpPart is the part of the time after which the operator should not grow.
	warmUpPart = 3
)

// soak is an operator at work, and all that goes on around it.
type soak struct {
	log       io.Writer
	random    *rand.Rand
	setting   *faults.Setting
	namespace string
	servers   []*server
	queues    []*queue

	begun  time.Time
	faults atomic.Int64 // that are over
	guests atomic.Int64 // that have come
}

// newSoak starts everything.
func newSoak(ctx context.Context, log io.Writer, seed uint64) (*soak, error) {
	setting, err := faults.NewSetting(ctx, "config/crd/bases", log)
	if err != nil {
		return nil, err
	}
	s := &soak{log: log, setting: setting, random: rand.New(rand.NewPCG(seed, 0)), begun: time.Now()}
	if err := s.populate(ctx, seed); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

// populate makes the servers and their queues.
func (s *soak) populate(ctx context.Context, seed uint64) (err error) {
	if s.namespace, err = s.setting.Control.CreateNamespace(ctx, "soak"); err != nil {
		return err
	}
	for i := range servers {
		on, err := newServer(ctx, fmt.Sprint(i), rand.New(rand.NewPCG(seed, uint64(i)+1)))
		if err != nil {
			return err
		}
		s.servers = append(s.servers, on)
		for j := range busyQueues + 1 {
			limit := int32(busyLimit)
			if j == busyQueues {
				limit = saturatedLimit
			}
			q, err := s.newQueue(ctx, on, fmt.Sprintf("queue-%d-%d", i, j), limit)
			if err != nil {
				return err
			}
			on.queues = append(on.queues, q)
			s.queues = append(s.queues, q)
		}
	}
	return nil
}

func (s *soak) close(ctx context.Context) error {
	var errs []error
	for _, on := range s.servers {
		errs = append(errs, on.close())
	}
	return errors.Join(append(errs, s.setting.Stop(ctx))...)
}

// run storms for as long, and compares the operator at rest after the first part
// of it and at the end.
func (s *soak) run(ctx context.Context, lasting time.Duration) error {
	warmUp := lasting / warmUpPart
	before, err := s.stormAndRest(ctx, warmUp)
	if err != nil {
		return err
	}
	s.report("at rest after the warm-up: %s", before)
	after, err := s.stormAndRest(ctx, lasting-warmUp)
	if err != nil {
		return err
	}
	s.report("at rest in the end: %s", after)
	if err := grown(before, after); err != nil {
		return err
	}
	s.report("%d faults, %d ScaledJobs that came and went: no Job too many, no wake-up lost, and the operator has not grown",
		s.faults.Load(), s.guests.Load())
	return nil
}

// stormAndRest has messages and faults come for as long, and sees that what is due
// in the end is there. It returns what the operator is like with nothing to do.
func (s *soak) stormAndRest(ctx context.Context, lasting time.Duration) (vitals, error) {
	if err := s.storm(ctx, lasting); err != nil {
		return vitals{}, err
	}
	if err := s.settle(ctx); err != nil {
		return vitals{}, err
	}
	return atRest(ctx, s.setting.Operator)
}

// storm lasts for so long, and until the last fault is over.
func (s *soak) storm(ctx context.Context, lasting time.Duration) error {
	all, failed := errgroup.WithContext(ctx)
	storm, stop := context.WithTimeout(failed, lasting)
	defer stop()
	for _, q := range s.queues {
		gap, burst := busyGap, busyBurst
		if q.limit() == saturatedLimit {
			gap, burst = saturatedGap, saturatedBurst
		}
		random := rand.New(rand.NewPCG(s.random.Uint64(), 0))
		all.Go(func() error {
			q.storm(storm, random, burst, gap)
			return nil
		})
		all.Go(func() error { return q.work(storm, workGap) })
	}
	for _, on := range s.servers {
		all.Go(func() error { return on.suffer(storm, s.noteFault) })
		all.Go(func() error { return s.haveGuests(storm, on) })
	}
	all.Go(func() error { return s.watchOver(storm) })
	return errors.Join(all.Wait(), ctx.Err())
}

// watchOver holds the Jobs against the messages all the time, and reports now and
// then.
func (s *soak) watchOver(ctx context.Context) error {
	reported := time.Now()
	for pause(ctx, checkInterval) == nil {
		if err := s.check(); err != nil {
			return err
		}
		if time.Since(reported) < progressInterval {
			continue
		}
		reported = time.Now()
		if err := s.setting.Alive(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if now, _, err := look(ctx, s.setting.Operator); err == nil {
			s.report("%s; now %s", s.sums(), now)
		}
	}
	return nil
}

func (s *soak) check() error {
	var errs []error
	for _, q := range s.queues {
		errs = append(errs, q.check())
	}
	return errors.Join(errs...)
}

// sums tells what has happened so far.
func (s *soak) sums() string {
	var pushed, created, unfinished int
	for _, q := range s.queues {
		pushed += int(q.pushed.Load())
		created += q.witness.Created()
		unfinished += len(q.witness.Unfinished())
	}
	return fmt.Sprintf("%d messages, %d Jobs (%d unfinished), %d faults, %d ScaledJobs that came and went",
		pushed, created, unfinished, s.faults.Load(), s.guests.Load())
}

func (s *soak) noteFault(on *server, fault faults.Fault) {
	s.faults.Add(1)
	s.report("server %s had: %s", on.name, fault.Name)
}

func (s *soak) report(format string, values ...any) {
	_, _ = fmt.Fprintf(s.log, "%8s  %s\n", time.Since(s.begun).Round(time.Second), fmt.Sprintf(format, values...))
}
