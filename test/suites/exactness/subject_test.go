// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	stormPushes = 2000
	// pushInterval makes a storm one of a thousand events per second.
	pushInterval = time.Millisecond
)

// subject is a ScaledJob under test, with its queue and the witness of its Jobs.
type subject struct {
	object  *scaledjobv1.ScaledJob // as created
	witness *witness.Witness
	pushed  atomic.Int64
}

// newSubject makes a ScaledJob with an empty queue, adjusted as wanted.
func newSubject(
	t *testing.T, namespace, name string, threshold int64, maxReplicas int32, adjust ...func(*scaledjobv1.ScaledJobSpec),
) *subject {
	t.Helper()
	g := NewWithT(t)
	// Few finished Jobs are kept, so that pruning goes on in the midst of it.
	history := int32(3)
	s := &subject{object: &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName:                  namespace + ":" + name,
			RedisAddress:               redis.Addr(),
			Threshold:                  threshold,
			MaxReplicas:                &maxReplicas,
			PollingIntervalSeconds:     1,
			SuccessfulJobsHistoryLimit: &history,
			JobTemplate:                witness.IdleJob(),
		},
	}}
	for _, apply := range adjust {
		apply(&s.object.Spec)
	}
	g.Expect(redis.Client().Del(t.Context(), s.object.Spec.QueueName).Err()).To(Succeed())
	g.Expect(api.Create(t.Context(), s.object)).To(Succeed())
	t.Cleanup(func() {
		err := api.Delete(context.WithoutCancel(t.Context()), s.object, client.PropagationPolicy(metav1.DeletePropagationBackground))
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	})
	s.witness = witness.New(t, control.Config(), s.object, s.due)
	return s
}

// saturation is how many Jobs a saturated subject has.
const saturation = 10

// newSaturatedSubject makes a ScaledJob that is at its limit, as the operator
// knows, with more messages in the queue.
func newSaturatedSubject(t *testing.T, namespace, name string, by *operator.Operator) *subject {
	t.Helper()
	g := NewWithT(t)
	s := newSubject(t, namespace, name, 1, saturation)
	s.awaitSubscription(t)
	g.Expect(s.burst(t.Context(), 10*saturation)).To(Succeed())
	g.Eventually(func(g Gomega) {
		var now scaledjobv1.ScaledJob
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(s.object), &now)).To(Succeed())
		g.Expect(now.Status.ActiveJobs).To(BeEquivalentTo(saturation))
	}).WithTimeout(timeout).Should(Succeed())
	s.awaitPasses(t, by, 1)
	return s
}

// due is how many Jobs may be unfinished, after what was pushed until now.
func (s *subject) due() int {
	spec := s.object.Spec
	return int(min(int64(*spec.MaxReplicas), (s.pushed.Load()+spec.Threshold-1)/spec.Threshold))
}

// awaitSubscription waits until somebody listens to the queue.
func (s *subject) awaitSubscription(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(s.listeners).WithContext(t.Context()).WithTimeout(timeout).Should(BeNumerically(">", 0))
}

// awaitSilence waits until nobody listens to the queue any more.
func (s *subject) awaitSilence(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(s.listeners).WithContext(t.Context()).WithTimeout(timeout).Should(BeZero())
}

// listeners is how many there are to the queue.
func (s *subject) listeners(ctx context.Context) (int64, error) {
	channel := "__keyspace@0__:" + s.object.Spec.QueueName
	listeners, err := redis.Client().PubSubNumSub(ctx, channel).Result()
	return listeners[channel], err
}

// burst pushes that many messages at once: whoever looks sees none of them, or all.
func (s *subject) burst(ctx context.Context, messages int) error {
	s.pushed.Add(int64(messages))
	_, err := redis.Client().TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		for range messages {
			pipe.LPush(ctx, s.object.Spec.QueueName, "message")
		}
		return nil
	})
	return err
}

// storm pushes a thousand messages a second, one by one.
func (s *subject) storm(ctx context.Context) error {
	start := time.Now()
	for i := range stormPushes {
		if err := scene.Pause(ctx, time.Until(start.Add(time.Duration(i)*pushInterval))); err != nil {
			return err
		}
		s.pushed.Add(1)
		if err := redis.Client().LPush(ctx, s.object.Spec.QueueName, "message").Err(); err != nil {
			return err
		}
	}
	return nil
}

// beginStorms has a storm come to each of the subjects. Whoever waits for the
// group waits until all are over.
func beginStorms(ctx context.Context, subjects ...*subject) *errgroup.Group {
	storms, ctx := errgroup.WithContext(ctx)
	for _, s := range subjects {
		storms.Go(func() error { return s.storm(ctx) })
	}
	return storms
}
