// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

const (
	// Between two faults of a server there is so much time, in which the operator recovers or does not.
	leastCalm, mostCalm = time.Second, 10 * time.Second
	// longestFault bounds how long a fault lasts.
	longestFault = 10 * time.Second
	// answerTimeout bounds what is asked of a server that may be down.
	answerTimeout = 2 * time.Second
	// strikeTimeout bounds a fault from its beginning until the server is well again, and the operator too.
	strikeTimeout = 5 * time.Minute
	// During a fault and until shortly after it, some messages come to each queue.
	faultyBurst            = 2
	longestGap, longestEnd = time.Second, 500 * time.Millisecond
)

// server is a Redis server that faults strike.
type server struct {
	name   string
	target *faults.Target
	// client is for messages, so that the one which brings faults about is never without a connection.
	client *goredis.Client
	random *rand.Rand
	queues []*queue
	// faulty is held from the beginning of a fault until the operator has recovered from it, and held for reading by
	// those who must not be at work then: any other message, and any Job that ends, would have the operator look.
	faulty sync.RWMutex
}

func newServer(ctx context.Context, name string, random *rand.Rand) (*server, error) {
	target, err := faults.NewTarget(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting server %s: %w", name, err)
	}
	return &server{name: name, target: target, client: newClient(target.Server.Addr()), random: random}, nil
}

// newClient makes a client that tries nothing twice, and gives up soon.
func newClient(address string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: address, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: answerTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
	})
}

func (s *server) close() error { return errors.Join(s.client.Close(), s.target.Close()) }

// suffer has one fault of the catalogue after the other strike the server until ctx ends. It calls struck with each
// that is over.
func (s *server) suffer(ctx context.Context, struck func(on *server, fault faults.Fault)) error {
	return inTurn(ctx, s.random, leastCalm, mostCalm, faults.Catalogue(), func(fault faults.Fault) error {
		if err := s.strike(ctx, fault, lasting(fault, s.random)); err != nil {
			return fmt.Errorf("playing the fault %q on server %s: %w", fault.Name, s.name, err)
		}
		struck(s, fault)
		return nil
	})
}

// lasting draws how long the fault is to last.
func lasting(fault faults.Fault, random *rand.Rand) time.Duration {
	return between(random, fault.Short, max(min(fault.Long, longestFault), fault.Short)+1)
}

// strike plays a fault to its end, even if ctx ends meanwhile, and sees that the
// messages that came during it get their Jobs though nothing else happens.
func (s *server) strike(ctx context.Context, fault faults.Fault, lasting time.Duration) error {
	s.faulty.Lock()
	defer s.faulty.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), strikeTimeout)
	defer cancel()
	if err := s.strikeAndPush(ctx, fault, lasting); err != nil {
		return err
	}
	for _, q := range s.queues {
		if err := q.awaitDue(ctx); err != nil {
			return err
		}
	}
	return nil
}

// strikeAndPush pushes messages at random moments until a random one after the end of the fault.
func (s *server) strikeAndPush(ctx context.Context, fault faults.Fault, lasting time.Duration) error {
	end := between(s.random, 0, longestEnd)
	gaps := rand.New(rand.NewPCG(s.random.Uint64(), 0))
	pushing, stop := context.WithCancel(ctx)
	var pusher sync.WaitGroup
	pusher.Go(func() {
		for sjtest.Pause(pushing, between(gaps, 0, longestGap)) == nil {
			for _, q := range s.queues {
				q.push(ctx, 1+gaps.IntN(faultyBurst))
			}
		}
	})
	err := fault.Strike(ctx, s.target, lasting, func(context.Context) error { return nil })
	err = errors.Join(err, sjtest.Pause(ctx, end))
	stop()
	pusher.Wait()
	return err
}
