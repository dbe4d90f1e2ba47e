// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// forcedPasses are made over each ScaledJob after all its Jobs are there.
	forcedPasses = 100
	// restPasses follow on them. Nothing but the resync brings them, and once
	// perhaps a status that waits to be written.
	restPasses = 3
	// changesPerScrape is how many passes are asked for before they are counted.
	changesPerScrape = 10
)

// claim is how many Jobs a subject must come to, over all time.
type claim struct {
	subject *subject
	jobs    int
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
		g.Eventually(c.subject.witness.Created).WithTimeout(timeout).
			Should(BeNumerically(">=", c.jobs), "Jobs of %s", c.subject.object.Name)
	}
	fault.Recovery = time.Since(ended)
	looking, ctx := errgroup.WithContext(t.Context())
	for _, c := range claims {
		looking.Go(func() error { return c.subject.force(ctx, by) })
	}
	g.Expect(looking.Wait()).To(Succeed())

	for _, c := range claims {
		g.Expect(c.subject.witness.CatchUp(t.Context())).To(Succeed())
		g.Expect(c.subject.witness.Verdict()).To(BeEmpty(), "about the Jobs of %s", c.subject.object.Name)
		g.Expect(c.subject.witness.Created()).To(Equal(c.jobs), "Jobs of %s", c.subject.object.Name)
	}
}

// balance is how many Jobs there are too few of, and too many.
func balance(claims []claim) (lost, over int) {
	for _, c := range claims {
		created := c.subject.witness.Created()
		lost += max(0, c.jobs-created)
		over += max(0, created-c.jobs)
	}
	return lost, over
}

// force returns after forcedPasses and restPasses more.
func (s *subject) force(ctx context.Context, by *operator.Operator) error {
	if err := s.disturb(ctx, by); err != nil {
		return err
	}
	if err := scene.Pause(ctx, longLag); err != nil { // for what the proxy holds back
		return err
	}
	return s.rest(ctx, by)
}

// rest returns after restPasses more.
func (s *subject) rest(ctx context.Context, by *operator.Operator) error {
	before, err := s.passes(ctx, by)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		done, err := s.passes(ctx, by)
		return done >= before+restPasses, err
	})
}

// disturb brings about forcedPasses by a Job whose Pod gets ready, and unready,
// and so on: each change wakes the operator, and none changes how many Jobs are
// due.
func (s *subject) disturb(ctx context.Context, by *operator.Operator) error {
	before, err := s.passes(ctx, by)
	if err != nil {
		return err
	}
	jobs := s.witness.Unfinished()
	if len(jobs) == 0 {
		return fmt.Errorf("%s has no Job to change", s.object.Name)
	}
	for done := before; done < before+forcedPasses; {
		for i := range changesPerScrape {
			if err := s.setReady(ctx, jobs[0], i%2); err != nil {
				return fmt.Errorf("changing Job %s: %w", jobs[0], err)
			}
		}
		if done, err = s.passes(ctx, by); err != nil {
			return err
		}
	}
	return nil
}

// setReady says how many Pods of a Job are ready.
func (s *subject) setReady(ctx context.Context, name string, pods int) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.object.Namespace, Name: name}}
	status := fmt.Appendf(nil, `{"status":{"active":1,"ready":%d}}`, pods)
	return api.Status().Patch(ctx, job, client.RawPatch(types.MergePatchType, status))
}

// passes is how many passes the operator has made over the ScaledJob. Those that
// its gate sent away for a stale cache do not count.
func (s *subject) passes(ctx context.Context, by *operator.Operator) (int, error) {
	return metric(ctx, by, "scaledjob_reconcile_total",
		fmt.Sprintf("namespace=%q", s.object.Namespace), fmt.Sprintf("scaledjob=%q", s.object.Name))
}

// awaitPasses waits until the operator has made so many more passes over the
// ScaledJob.
func (s *subject) awaitPasses(t *testing.T, by *operator.Operator, more int) {
	t.Helper()
	g := NewWithT(t)
	before, err := s.passes(t.Context(), by)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.passes).WithArguments(t.Context(), by).WithTimeout(timeout).Should(BeNumerically(">=", before+more))
}

// metric is the sum of the series of this name that have these labels.
func metric(ctx context.Context, of *operator.Operator, name string, labels ...string) (int, error) {
	all, err := of.Metrics(ctx)
	return int(all.Sum(name, labels...)), err
}
