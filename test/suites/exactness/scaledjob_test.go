// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	stormPushes = 2000
	// pushInterval makes a storm one of a thousand events per second.
	pushInterval = time.Millisecond
)

// scaledJob is a ScaledJob under test, with its queue and a watch of its Jobs.
type scaledJob struct{ *sjtest.Test }

// newScaledJob creates a ScaledJob with an empty queue, changed as wanted.
func newScaledJob(
	t *testing.T, namespace, name string, threshold int64, maxReplicas int32, changes ...sjtest.Change,
) *scaledJob {
	t.Helper()
	g := NewWithT(t)
	s := &scaledJob{sjtest.NewTest(t, timeout, &sjtest.ScaledJob{
		API: api, Redis: redis.Client(), Address: redis.Addr(),
		Namespace: namespace, Name: name, Queue: namespace + ":" + name,
	})}
	usual := func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Threshold, spec.PollingIntervalSeconds = threshold, 1
		// Few finished Jobs are kept, so that pruning goes on in the midst of it.
		spec.SuccessfulJobsHistoryLimit = new(int32(3))
	}
	g.Expect(s.Redis.Del(t.Context(), s.Queue).Err()).To(Succeed())
	s.Create(append([]sjtest.Change{usual, sjtest.AtMost(maxReplicas)}, changes...)...)
	g.Expect(s.Observe(t.Context(), control.Config(), s.Due)).To(Succeed())
	return s
}

// newSingle creates a ScaledJob that has a Job to a message, and an operator to itself, which is subscribed to the
// queue and reaches the API server through the proxy.
func newSingle(t *testing.T, name string, maxReplicas int32, changes ...sjtest.Change) (*scaledJob, *proxy) {
	t.Helper()
	namespace, proxy := newNamespace(t), startProxy(t)
	by := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, name, 1, maxReplicas, changes...)
	s.AwaitSubscription()
	s.Operator = by
	return s, proxy
}

// saturation is how many Jobs a saturated ScaledJob has.
const saturation = 10

// newSaturatedScaledJob makes a ScaledJob that is at its limit, as the operator knows, with more messages in the queue.
func newSaturatedScaledJob(t *testing.T, namespace, name string, by *operator.Operator) *scaledJob {
	t.Helper()
	s := newScaledJob(t, namespace, name, 1, saturation)
	s.AwaitSubscription()
	s.PushTogether(10 * saturation)
	NewWithT(t).Eventually(s.Status).WithTimeout(timeout).Should(HaveField("ActiveJobs", BeEquivalentTo(saturation)))
	s.awaitReconciles(by, 1)
	return s
}

// awaitSubscriptions waits until so many operators are subscribed to the queue.
func (s *scaledJob) awaitSubscriptions(t *testing.T, operators int) {
	t.Helper()
	NewWithT(t).Eventually(s.Subscribers).WithTimeout(timeout).Should(BeEquivalentTo(operators))
}

// storm pushes a thousand messages a second, one by one.
func (s *scaledJob) storm(ctx context.Context) error {
	start := time.Now()
	for i := range stormPushes {
		if err := sjtest.Pause(ctx, time.Until(start.Add(time.Duration(i)*pushInterval))); err != nil {
			return err
		}
		if err := s.ScaledJob.Push(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// beginStorms has a storm come to each of the ScaledJobs. Whoever waits for the group waits until all are over.
func beginStorms(ctx context.Context, scaledJobs ...*scaledJob) *errgroup.Group {
	storms, ctx := errgroup.WithContext(ctx)
	for _, s := range scaledJobs {
		storms.Go(func() error { return s.storm(ctx) })
	}
	return storms
}

// restReconciles are some that nothing but the resync brings, and once perhaps a status that waits to be written.
const restReconciles = 3

// want is how many Jobs a ScaledJob must come to, over all time.
type want struct {
	scaledJob *scaledJob
	jobs      int
}

// requireExactly waits until the Jobs of the wants are there, has the operator look many more times, holds the wants
// against the Jobs that there ever were, and notes what came of the fault, which has ended just now.
func requireExactly(t *testing.T, by *operator.Operator, fault jobwatch.Row, wants ...want) {
	t.Helper()
	defer func() {
		fault.Lost, fault.Over = difference(wants)
		table.Add(fault)
	}()
	g, ended := NewWithT(t), time.Now()
	for _, c := range wants {
		g.Eventually(c.scaledJob.Jobs.Created).WithTimeout(timeout).
			Should(BeNumerically(">=", c.jobs), "Jobs of %s", c.scaledJob.Object.Name)
	}
	fault.Recovery = time.Since(ended)
	ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
	defer cancel()
	proofs, ctx := errgroup.WithContext(ctx)
	for _, c := range wants {
		c.scaledJob.Operator = by
		proofs.Go(func() error {
			return c.scaledJob.Exactly(ctx, func(context.Context) (int, error) { return c.jobs, nil })
		})
	}
	g.Expect(proofs.Wait()).To(Succeed())
}

// difference is how many Jobs there are too few of, and too many.
func difference(wants []want) (lost, over int) {
	for _, c := range wants {
		created := c.scaledJob.Jobs.Created()
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
	return s.ScaledJob.AwaitReconciles(ctx, restReconciles)
}

// awaitReconciles waits until the operator has reconciled the ScaledJob so many more times.
func (s *scaledJob) awaitReconciles(by *operator.Operator, more int) {
	s.TB.Helper()
	s.Operator = by
	s.AwaitReconciles(more)
}

// metric is the sum of the series of this name that have these labels.
func metric(ctx context.Context, of *operator.Operator, name string, labels ...string) (int, error) {
	all, err := of.Metrics(ctx)
	return int(all.Sum(name, labels...)), err
}

// pair is two ScaledJobs for storms: one that is soon at its limit, and one that gets more and more Jobs. They have a
// namespace and an operator to themselves, which reaches the API server through the proxy.
type pair struct {
	namespace       string
	proxy           *proxy
	operator        *operator.Operator
	capped, growing *scaledJob
}

// newPair creates both, and returns when the operator is subscribed to their queues.
func newPair(t *testing.T, through *proxy) *pair {
	t.Helper()
	p := &pair{namespace: newNamespace(t), proxy: through}
	p.operator = startOperator(t, through, []string{p.namespace})
	p.capped = newScaledJob(t, p.namespace, "capped", 1, 10)
	p.growing = newScaledJob(t, p.namespace, "growing", 40, 100)
	p.capped.AwaitSubscription()
	p.growing.AwaitSubscription()
	return p
}

// beginStorms has a storm come to each. Whoever waits for the group waits until both are over.
func (p *pair) beginStorms(ctx context.Context) *errgroup.Group {
	return beginStorms(ctx, p.capped, p.growing)
}

// requireExactly asserts it of both after their storms, and of others.
func (p *pair) requireExactly(t *testing.T, fault jobwatch.Row, others ...want) {
	t.Helper()
	wants := []want{{scaledJob: p.capped, jobs: 10}, {scaledJob: p.growing, jobs: stormPushes / 40}}
	requireExactly(t, p.operator, fault, append(wants, others...)...)
}

// stormAndWorkBeside has a storm come to each of these, and one to a ScaledJob whose Jobs workers finish. It returns
// how many they finished.
func stormAndWorkBeside(t *testing.T, worked *scaledJob, others ...*scaledJob) (finished int) {
	t.Helper()
	storms := beginStorms(t.Context(), others...)
	storms.Go(func() (err error) {
		finished, err = stormAndWork(t.Context(), worked)
		return err
	})
	NewWithT(t).Expect(storms.Wait()).To(Succeed())
	return finished
}
