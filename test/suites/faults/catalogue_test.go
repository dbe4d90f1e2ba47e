// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// halfASecond bounds what is promised about Jobs while subscribers are killed.
const halfASecond = 500 * time.Millisecond

func TestRedisFaults(t *testing.T) {
	t.Parallel()
	representatives := []string{
		"SIGSTOP", "half-open in both directions", "network down", "subscribers killed every 100 ms",
		"maxclients reached, operator not connected", "a message is cut off half-way",
	}
	for _, fault := range scene.RowsNamed(t, Catalogue(), nameOf, representatives...) {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			fixture := newFixture(t)
			NewWithT(t).Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
			row, err := fixture.Play(t.Context(), fault, lasting(fault))
			conclude(t, fixture, row, err, fault.Within)
		})
	}
}

func TestRedisFaultsWhileKeysAreTracked(t *testing.T) {
	t.Parallel()
	faults := slices.DeleteFunc(Catalogue(), func(fault Fault) bool { return fault.OfSubscribers })
	for _, fault := range scene.RowsNamed(t, faults, nameOf, "half-open in both directions") {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			fixture := newFixture(t, scene.Tracking)
			NewWithT(t).Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
			row, err := fixture.Play(t.Context(), fault, lasting(fault))
			row.Fault += ", keys tracked"
			conclude(t, fixture, row, err, fault.Within)
		})
	}
}

func TestRedisFaultsFromTheStart(t *testing.T) {
	t.Parallel()
	atStart := slices.DeleteFunc(Catalogue(), func(fault Fault) bool { return !fault.AtStart })
	for _, fault := range scene.RowsNamed(t, atStart, nameOf, "kill -9, restarted empty") {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			fixture := newEmptyFixture(t)
			row, err := fixture.PlayStart(t.Context(), fault, lasting(fault), func(context.Context) error {
				add(t, fixture, "growing")
				add(t, fixture, "capped", scene.AtMost(capacity))
				return nil
			})
			conclude(t, fixture, row, err, fault.Within)
		})
	}
}

// Jobs change during this fault, so that the operator reads the queues and gets
// no answer.
func TestRedisFaultAfterFailedReads(t *testing.T) {
	skip.UnderShort(t, "TestRedisFaults has the same fault, without the reads")
	t.Parallel()
	fixture := newFixture(t)
	NewWithT(t).Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := named(t, "SIGSTOP")
	strike := fault.Strike
	fault.Name += ", read meanwhile"
	fault.Strike = func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
		return strike(ctx, target, lasting, func(ctx context.Context) error {
			return errors.Join(fixture.each(ctx, func(q *Queue, ctx context.Context) error { return q.Nudge(ctx, 1) }), meanwhile(ctx))
		})
	}
	row, err := fixture.Play(t.Context(), fault, lasting(fault))
	conclude(t, fixture, row, err, fault.Within)
}

// Messages come one by one, each when the Job of the one before is there.
func TestJobsComeSoonWhileSubscribersAreKilled(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	pushes := 20
	if *long {
		pushes = 200
	}
	queue := add(t, fixture, "growing", scene.AtMost(int32(pushes)))
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := named(t, "subscribers killed every 100 ms")
	var latencies []time.Duration
	err := fault.Strike(t.Context(), fixture.Target, 0, func(ctx context.Context) error {
		for i := range pushes {
			if err := errors.Join(scene.Pause(ctx, rand.N(killInterval)), queue.Push(ctx, 1)); err != nil {
				return err
			}
			pushed := time.Now()
			if err := fixture.AwaitExpected(ctx); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			latencies = append(latencies, time.Since(pushed))
		}
		return nil
	})
	g.Expect(err).NotTo(HaveOccurred())
	slices.Sort(latencies)
	row := witness.Row{Fault: fault.Name + ", p95 from push to Job", Promise: fault.Promise, Recovery: latencies[len(latencies)*95/100]}
	conclude(t, fixture, row, nil, halfASecond)
}

func nameOf(fault Fault) string { return fault.Name }

// lasting is how long a fault lasts in this form of the tests.
func lasting(fault Fault) time.Duration {
	if *long {
		return fault.Long
	}
	return fault.Short
}

// conclude holds what came of a fault against what was promised, and notes it.
func conclude(t *testing.T, fixture *Fixture, row witness.Row, err error, within time.Duration) {
	t.Helper()
	g := NewWithT(t)
	if err == nil {
		row.Over, err = fixture.Prove(t.Context())
	}
	table.Add(row)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(row.Lost).To(BeZero(), "Jobs that did not come")
	g.Expect(row.Over).To(BeZero(), "Jobs that were not due")
	if *long {
		g.Expect(row.Recovery).To(BeNumerically("<=", within))
	}
}

func TestFaultsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, fault := range Catalogue() {
		g.Expect(seen).NotTo(HaveKey(fault.Name))
		g.Expect(fault.Promise).NotTo(BeEmpty(), fault.Name)
		g.Expect(fault.Within).NotTo(BeZero(), fault.Name)
		seen[fault.Name] = true
	}
}
