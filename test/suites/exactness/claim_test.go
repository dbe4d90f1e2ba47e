// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// forcedReconciles are made over each ScaledJob after all its Jobs are there.
	forcedReconciles = 100
	// restReconciles follow on them. Nothing but the resync brings them, and once
	// perhaps a status that waits to be written.
	restReconciles = 3
)

// claim is how many Jobs a ScaledJob must come to, over all time.
type claim struct {
	scaledJob *scaledJob
	jobs      int
}

// prove waits until the Jobs of the claims are there, has the operator look many
// more times, holds the claims against what the witnesses saw, and notes what
// came of the fault, which has ended just now.
func prove(t *testing.T, by *operator.Operator, fault witness.Row, claims ...claim) {
	t.Helper()
	defer func() {
		fault.Lost, fault.Over = balance(claims)
		table.Add(fault)
	}()
	g, ended := NewWithT(t), time.Now()
	for _, c := range claims {
		g.Eventually(c.scaledJob.Witness.Created).WithTimeout(timeout).
			Should(BeNumerically(">=", c.jobs), "Jobs of %s", c.scaledJob.Object.Name)
	}
	fault.Recovery = time.Since(ended)
	looking, ctx := errgroup.WithContext(t.Context())
	for _, c := range claims {
		looking.Go(func() error { return c.scaledJob.force(ctx, by) })
	}
	g.Expect(looking.Wait()).To(Succeed())

	for _, c := range claims {
		g.Expect(c.scaledJob.Witness.CatchUp(t.Context())).To(Succeed())
		g.Expect(c.scaledJob.Witness.Verdict()).To(BeEmpty(), "about the Jobs of %s", c.scaledJob.Object.Name)
		g.Expect(c.scaledJob.Witness.Created()).To(Equal(c.jobs), "Jobs of %s", c.scaledJob.Object.Name)
	}
}

// balance is how many Jobs there are too few of, and too many.
func balance(claims []claim) (lost, over int) {
	for _, c := range claims {
		created := c.scaledJob.Witness.Created()
		lost += max(0, c.jobs-created)
		over += max(0, created-c.jobs)
	}
	return lost, over
}

// force returns after forcedReconciles and restReconciles more.
func (s *scaledJob) force(ctx context.Context, by *operator.Operator) error {
	s.Operator = by
	if err := s.Disturb(ctx, forcedReconciles); err != nil {
		return err
	}
	if err := scene.Pause(ctx, longLag); err != nil { // for what the proxy holds back
		return err
	}
	return s.rest(ctx, by)
}

// rest returns after restReconciles more.
func (s *scaledJob) rest(ctx context.Context, by *operator.Operator) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.Operator = by
	return s.AwaitReconciles(ctx, restReconciles)
}

// reconciles is how often this operator has reconciled the ScaledJob. Those times do not count that its gate sent it
// away for a stale cache.
func (s *scaledJob) reconciles(ctx context.Context, by *operator.Operator) (int, error) {
	all, err := by.Metrics(ctx)
	return all.Reconciles(s.Key()), err
}

// awaitReconciles waits until the operator has reconciled the ScaledJob so many more times.
func (s *scaledJob) awaitReconciles(t *testing.T, by *operator.Operator, more int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	s.Operator = by
	NewWithT(t).Expect(s.AwaitReconciles(ctx, more)).To(Succeed())
}

// metric is the sum of the series of this name that have these labels.
func metric(ctx context.Context, of *operator.Operator, name string, labels ...string) (int, error) {
	all, err := of.Metrics(ctx)
	return int(all.Sum(name, labels...)), err
}
