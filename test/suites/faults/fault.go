// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults breaks a Redis server, or the network to it, in every way that the operator promises to stand, and
// sees whether it keeps the promise: no wake-up lost, no Job too many.
//
// A Fault knows how to strike a Target and how to end. A Fixture has an operator at work for queues on the target, with
// neither resync nor polling, and a watch of their Jobs. Both are for the tests of this folder, which play one fault
// after the other, and for longer programs, which mix them.
package faults

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Fault is something that goes wrong between the operator and a Redis server, and passes.
type Fault struct {
	// Name says what happens, and Promise what users may rely on nevertheless.
	Name, Promise string
	// Short and Long say how long it lasts in the short and in the long form. Zero is for what happens in a moment.
	Short, Long time.Duration
	// AtStart says that it is another matter where the operator begins during it.
	AtStart bool
	// OfSubscribers says that it strikes only who is subscribed.
	OfSubscribers bool
	// Within is how soon after the end of the fault all Jobs that are due must be there: atNextAttempt unless it is set.
	// It is judged in the long form alone.
	Within time.Duration
	Strike Strike
	// strikeFirst takes the place of Strike for a fault of the first queue of a fixture.
	strikeFirst QueueFault
}

// Strike brings a fault about, calls meanwhile, and ends the fault once it has lasted for so long. It returns when the
// server takes commands again, whatever went wrong.
type Strike func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error

// QueueFault is the Strike of a Fault that needs to know which queue it is about.
type QueueFault func(ctx context.Context, q *Queue, lasting time.Duration, meanwhile Meanwhile) error

// Meanwhile is what is done during a fault. The server may refuse it.
type Meanwhile func(ctx context.Context) error

// How soon the operator is back after the end of a fault.
const (
	// atNextAttempt is for a server that is found up by the next attempt to reach
	// it, of which there is one every 10 s at least.
	atNextAttempt = 12 * time.Second
	// atNextPing is for connections that are dead without having ended.
	atNextPing = 17 * time.Second
)

// Catalogue returns all faults.
func Catalogue() []Fault {
	return slices.Concat(processFaults(), networkFaults(), clientFaults(), refusals(), forgeries())
}

// during calls meanwhile and returns after so long, or when that returns if it takes longer.
func during(ctx context.Context, lasting time.Duration, meanwhile Meanwhile) error {
	over := time.After(lasting)
	err := meanwhile(ctx)
	select {
	case <-over:
		return err
	case <-ctx.Done():
		return errors.Join(err, context.Cause(ctx))
	}
}

// besides does something to the server until its context ends, for as long as messages come, and lasting at least.
func besides(do func(*Target, context.Context) error) Strike {
	return func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
		doing, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- do(target, doing) }()
		err := during(ctx, lasting, meanwhile)
		stop()
		return errors.Join(err, <-done)
	}
}
