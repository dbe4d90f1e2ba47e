// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	stormPushes = 2000
	// pushInterval makes a storm one of a thousand events per second.
	pushInterval = time.Millisecond
)

// scaledJob is a ScaledJob under test, with its queue and the witness of its Jobs.
type scaledJob struct{ *scene.ScaledJob }

// newScaledJob creates a ScaledJob with an empty queue, changed as wanted.
func newScaledJob(
	t *testing.T, namespace, name string, threshold int64, maxReplicas int32, changes ...scene.Change,
) *scaledJob {
	t.Helper()
	g := NewWithT(t)
	s := &scaledJob{&scene.ScaledJob{
		API: api, Redis: redis.Client(), Address: redis.Addr(),
		Namespace: namespace, Name: name, Queue: namespace + ":" + name,
	}}
	usual := func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Threshold, spec.PollingIntervalSeconds = threshold, 1
		// Few finished Jobs are kept, so that pruning goes on in the midst of it.
		spec.SuccessfulJobsHistoryLimit = new(int32(3))
	}
	g.Expect(s.Redis.Del(t.Context(), s.Queue).Err()).To(Succeed())
	g.Expect(s.Create(t.Context(), append([]scene.Change{usual, scene.AtMost(maxReplicas)}, changes...)...)).To(Succeed())
	t.Cleanup(func() {
		g.Expect(s.Delete(context.WithoutCancel(t.Context()), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	})
	g.Expect(s.Observe(t.Context(), control.Config(), s.Due)).To(Succeed())
	return s
}

// saturation is how many Jobs a saturated ScaledJob has.
const saturation = 10

// newSaturatedScaledJob makes a ScaledJob that is at its limit, as the operator
// knows, with more messages in the queue.
func newSaturatedScaledJob(t *testing.T, namespace, name string, by *operator.Operator) *scaledJob {
	t.Helper()
	g := NewWithT(t)
	s := newScaledJob(t, namespace, name, 1, saturation)
	s.awaitSubscription(t)
	g.Expect(s.PushTogether(t.Context(), 10*saturation)).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	g.Expect(s.AwaitStatus(ctx, "all Jobs are active", func(now *scaledjobv1.ScaledJob) bool {
		return now.Status.ActiveJobs == saturation
	})).To(Succeed())
	s.awaitReconciles(t, by, 1)
	return s
}

// awaitSubscriptions waits until so many operators are subscribed to the queue.
func (s *scaledJob) awaitSubscriptions(t *testing.T, operators int) {
	t.Helper()
	NewWithT(t).Eventually(s.Subscribers).WithContext(t.Context()).WithTimeout(timeout).Should(BeEquivalentTo(operators))
}

// awaitSubscription waits until somebody is subscribed to the queue.
func (s *scaledJob) awaitSubscription(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	NewWithT(t).Expect(s.AwaitSubscription(ctx)).To(Succeed())
}

// awaitSilence waits until nobody is subscribed to the queue any more.
func (s *scaledJob) awaitSilence(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(s.Subscribers).WithContext(t.Context()).WithTimeout(timeout).Should(BeZero())
}

// storm pushes a thousand messages a second, one by one.
func (s *scaledJob) storm(ctx context.Context) error {
	start := time.Now()
	for i := range stormPushes {
		if err := scene.Pause(ctx, time.Until(start.Add(time.Duration(i)*pushInterval))); err != nil {
			return err
		}
		if err := s.Push(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// beginStorms has a storm come to each of the ScaledJobs. Whoever waits for the
// group waits until all are over.
func beginStorms(ctx context.Context, scaledJobs ...*scaledJob) *errgroup.Group {
	storms, ctx := errgroup.WithContext(ctx)
	for _, s := range scaledJobs {
		storms.Go(func() error { return s.storm(ctx) })
	}
	return storms
}
