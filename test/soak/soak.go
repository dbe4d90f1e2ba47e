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

	"miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

const (
	servers = 3
	// Each server has queues whose workers keep up, and one that is at its limit all the time.
	busyQueues                = 3
	busyLimit, saturatedLimit = 20, 5
	// The mean gap between bursts of messages to a queue at its limit.
	saturatedGap              = 50 * time.Millisecond
	busyBurst, saturatedBurst = 5, 50

	checkInterval    = time.Second
	progressInterval = 10 * time.Second
	// parts of equal length are those with other operators, the warm-up, and that in
	// which the operator should not grow.
	parts = 3
)

// pace are the mean gaps between bursts of messages, and between Jobs that finish, and how long a guest stays.
type pace struct{ gap, work, stay time.Duration }

var (
	hectic = pace{gap: 500 * time.Millisecond, work: 100 * time.Millisecond, stay: 2 * time.Second}
	// calm is so that Pods run and alerts are evaluated a few times meanwhile.
	calm = pace{gap: 5 * time.Second, work: time.Second, stay: 20 * time.Second}
)

// soak is an operator at work, and all that goes on around it.
type soak struct {
	log  io.Writer
	pace pace
	// alerts has the alerts, if all is well, and nil if there are faults.
	alerts    *prometheus.Prometheus
	random    *rand.Rand
	setting   *faults.Setting
	namespace string
	servers   []*server
	queues    []*queue
	strangers []*redistest.Scripted
	api       *api
	// operating is held while there is no operator, and held for reading by those who ask it something.
	operating sync.RWMutex

	begun  time.Time
	faults atomic.Int64 // that are over
	guests atomic.Int64 // that have come
}

// newSoak starts everything. With alerts, all is well.
func newSoak(ctx context.Context, log io.Writer, seed uint64, alerts bool) (*soak, error) {
	start, pace := faults.NewSetting, hectic
	if alerts {
		start, pace = newHealthySetting, calm
	}
	setting, err := start(ctx, log)
	if err != nil {
		return nil, err
	}
	s := &soak{
		log: log, pace: pace, setting: setting, api: &api{Client: setting.API},
		random: rand.New(rand.NewPCG(seed, 0)), begun: time.Now(),
	}
	if alerts {
		s.alerts, err = watchAlerts(ctx, log, setting.Operator)
	}
	if err == nil {
		err = s.populate(ctx, seed)
	}
	if err != nil {
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
	if s.alerts != nil {
		return nil
	}
	return s.listen()
}

// addQueues makes the queues of a server.
func (s *soak) addQueues(ctx context.Context, on *server) error {
	for i := range busyQueues + 1 {
		limit := int32(busyLimit)
		if i == busyQueues {
			if s.alerts != nil {
				continue
			}
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
	errs := []error{s.alerts.Stop(ctx)}
	for _, stranger := range s.strangers {
		stranger.Close()
	}
	for _, on := range s.servers {
		errs = append(errs, on.close())
	}
	return errors.Join(append(errs, s.setting.Stop(ctx))...)
}

// runWell storms for as long without a break, which would end what an alert waits for, and sees that no alert fires.
func (s *soak) runWell(ctx context.Context, lasting time.Duration) error {
	if err := s.storm(ctx, lasting, nil); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.report("%d ScaledJobs that came and went: no Job too many, and no wake-up lost", s.guests.Load())
	return s.reportAlerts(ctx, lasting)
}

// run storms for as long. In the first part of it, operators end and others take their place. Then one stays, which is
// compared at rest: after it has got warm and at the end.
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
		gap, burst := s.pace.gap, busyBurst
		if q.limit() == saturatedLimit {
			gap, burst = saturatedGap, saturatedBurst
		}
		random := s.newRandom()
		all.Go(func() error {
			q.storm(storm, random, burst, gap)
			return nil
		})
		all.Go(func() error { return q.work(storm, s.pace.work) })
	}
	for _, on := range s.servers {
		all.Go(func() error { return s.haveGuests(storm, on) })
	}
	all.Go(func() error { return s.watchOver(storm) })
	if s.alerts == nil {
		s.trouble(storm, all, upheavals)
	}
	return errors.Join(all.Wait(), ctx.Err())
}

// trouble has faults strike the servers and what all queues have in common, and strangers named, until ctx ends.
func (s *soak) trouble(ctx context.Context, all *errgroup.Group, upheavals []upheaval) {
	for _, on := range s.servers {
		all.Go(func() error { return on.suffer(ctx, s.noteFault) })
	}
	random := s.newRandom()
	all.Go(func() error { return s.upheave(ctx, random, upheavals) })
	all.Go(func() error { return s.haveStrangers(ctx) })
}

// newRandom makes another source of chance.
func (s *soak) newRandom() *rand.Rand { return rand.New(rand.NewPCG(s.random.Uint64(), 0)) }

// watchOver holds the Jobs against the messages all the time, and reports now and then.
func (s *soak) watchOver(ctx context.Context) error {
	reported := time.Now()
	for sjtest.Pause(ctx, checkInterval) == nil {
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
	if err != nil {
		return err
	}
	s.report("%s; now %s", s.sums(), now)
	if s.alerts == nil {
		return nil
	}
	return s.checkAlerts(ctx)
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
		created += q.observed.Created()
		unfinished += len(q.observed.Unfinished())
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
