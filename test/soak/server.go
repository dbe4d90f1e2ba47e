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

	"miracle.dev/scaledjob-operator/test/faults"
)

const (
	// Between two faults of a server there is so much time, in which the operator
	// recovers or does not.
	leastCalm, mostCalm = time.Second, 10 * time.Second
	// longestFault bounds how long a fault lasts.
	longestFault = 10 * time.Second
	// answerTimeout bounds what is asked of a server that may be down.
	answerTimeout = 2 * time.Second
	// strikeTimeout bounds a fault from its beginning until the server is well again.
	strikeTimeout = 2 * time.Minute
)

// server is a Redis server that faults strike.
type server struct {
	name   string
	target *faults.Target
	// client is for messages, so that the one which brings faults about is never
	// without a connection.
	client *goredis.Client
	random *rand.Rand
	// faulty is held while a fault lasts, and held for reading by those who must not
	// be at work then.
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

// suffer has one fault after the other strike the server until ctx ends, all of
// the catalogue in an order of chance, and then all again. It calls struck with
// each that is over.
func (s *server) suffer(ctx context.Context, struck func(on *server, fault faults.Fault)) error {
	var deck []faults.Fault
	for pause(ctx, leastCalm+time.Duration(s.random.Int64N(int64(mostCalm-leastCalm)))) == nil {
		if len(deck) == 0 {
			deck = faults.Catalogue()
			s.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		fault := deck[0]
		deck = deck[1:]
		if err := s.strike(ctx, fault, lasting(fault, s.random)); err != nil {
			return fmt.Errorf("playing the fault %q on server %s: %w", fault.Name, s.name, err)
		}
		struck(s, fault)
	}
	return nil
}

// lasting draws how long the fault is to last.
func lasting(fault faults.Fault, random *rand.Rand) time.Duration {
	longest := min(fault.Long, longestFault)
	return fault.Short + time.Duration(random.Int64N(int64(max(longest-fault.Short, 0))+1))
}

// strike plays a fault to its end, even if ctx ends meanwhile.
func (s *server) strike(ctx context.Context, fault faults.Fault, lasting time.Duration) error {
	s.faulty.Lock()
	defer s.faulty.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), strikeTimeout)
	defer cancel()
	return fault.Strike(ctx, s.target, lasting, func(context.Context) error { return nil })
}
