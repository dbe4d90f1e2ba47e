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
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// restReconciles are some that nothing but the resync brings, and once perhaps a status that waits to be written.
const restReconciles = 3

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
	ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
	defer cancel()
	proofs, ctx := errgroup.WithContext(ctx)
	for _, c := range claims {
		c.scaledJob.Operator = by
		proofs.Go(func() error {
			return c.scaledJob.Exactly(ctx, func(context.Context) (int, error) { return c.jobs, nil })
		})
	}
	g.Expect(proofs.Wait()).To(Succeed())
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

// rest returns after restReconciles.
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
