// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/suites/faults"
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
	// parts of equal length are those with other operators, the warm-up, and that in
	// which the operator should not grow.
	parts = 3
)

// soak is an operator at work, and all that goes on around it.
type soak struct {
	log       io.Writer
	random    *rand.Rand
	setting   *faults.Setting
	namespace string
	servers   []*server
	queues    []*queue
	strangers []*faults.Listening
	api       *api
	// operating is held while there is no operator, and held for reading by those who
	// ask it something.
	operating sync.RWMutex

	begun  time.Time
	faults atomic.Int64 // that are over
	guests atomic.Int64 // that have come
}

// newSoak starts everything.
func newSoak(ctx context.Context, log io.Writer, seed uint64) (*soak, error) {
	setting, err := faults.NewSetting(ctx, log)
	if err != nil {
		return nil, err
	}
	s := &soak{
		log: log, setting: setting, api: &api{Client: setting.API},
		random: rand.New(rand.NewPCG(seed, 0)), begun: time.Now(),
	}
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
		if err := s.addQueues(ctx, on); err != nil {
			return err
		}
	}
	return s.listen()
}

// addQueues makes the queues of a server.
func (s *soak) addQueues(ctx context.Context, on *server) error {
	for i := range busyQueues + 1 {
		limit := int32(busyLimit)
		if i == busyQueues {
			limit = saturatedLimit
		}
		q, err := s.newQueueOn(ctx, on, fmt.Sprintf("queue-%s-%d", on.name, i), limit)
		if err != nil {
			return err
		}
		on.queues = append(on.queues, q)
		s.queues = append(s.queues, q)
	}
	return nil
}

func (s *soak) close(ctx context.Context) error {
	var errs []error
	for _, stranger := range s.strangers {
		errs = append(errs, stranger.Close())
	}
	for _, on := range s.servers {
		errs = append(errs, on.close())
	}
	return errors.Join(append(errs, s.setting.Stop(ctx))...)
}

// run storms for as long. In the first part of it, operators end and others take
// their place. Then one stays, which is compared at rest: after it has got warm and
// at the end.
func (s *soak) run(ctx context.Context, lasting time.Duration) error {
	part := lasting / parts
	if err := s.storm(ctx, part, upheavals()); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	before, err := s.stormAndRest(ctx, part)
	if err != nil {
		return err
	}
	s.report("at rest after the warm-up: %s", before)
	after, err := s.stormAndRest(ctx, lasting-2*part)
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
	if err := s.storm(ctx, lasting, []upheaval{apiServerRestarts}); err != nil {
		return vitals{}, err
	}
	if err := s.settle(ctx); err != nil {
		return vitals{}, err
	}
	return atRest(ctx, s.setting.Operator)
}

// storm lasts for so long, and until the last fault is over.
func (s *soak) storm(ctx context.Context, lasting time.Duration, upheavals []upheaval) error {
	all, failed := errgroup.WithContext(ctx)
	storm, stop := context.WithTimeout(failed, lasting)
	defer stop()
	for _, q := range s.queues {
		gap, burst := busyGap, busyBurst
		if q.limit() == saturatedLimit {
			gap, burst = saturatedGap, saturatedBurst
		}
		random := s.newRandom()
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
	random := s.newRandom()
	all.Go(func() error { return s.upheave(storm, random, upheavals) })
	all.Go(func() error { return s.haveStrangers(storm) })
	return errors.Join(all.Wait(), ctx.Err())
}

// newRandom makes another source of chance.
func (s *soak) newRandom() *rand.Rand { return rand.New(rand.NewPCG(s.random.Uint64(), 0)) }

// watchOver holds the Jobs against the messages all the time, and reports now and
// then.
func (s *soak) watchOver(ctx context.Context) error {
	reported := time.Now()
	for scene.Pause(ctx, checkInterval) == nil {
		if err := s.check(); err != nil {
			return err
		}
		if time.Since(reported) < progressInterval {
			continue
		}
		reported = time.Now()
		if err := s.examine(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// examine reports how the operator is, and returns an error if it is not well.
func (s *soak) examine(ctx context.Context) error {
	s.operating.RLock()
	defer s.operating.RUnlock()
	if err := s.setting.Alive(ctx); err != nil {
		return err
	}
	now, _, err := look(ctx, s.setting.Operator)
	if err == nil {
		s.report("%s; now %s", s.sums(), now)
	}
	return err
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
		pushed += q.Pushed()
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
