// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/pause"
	"miracle.dev/scaledjob-operator/test/witness"
)

const (
	stormPushes = 2000
	// pushInterval makes a storm one of a thousand events per second.
	pushInterval = time.Millisecond
	// workInterval is the mean time in which the workers of a subject finish a
	// Job. It is short enough for several to finish within one lag.
	workInterval = 25 * time.Millisecond
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

// burst pushes that many messages at once.
func (s *subject) burst(ctx context.Context, messages int) error {
	s.pushed.Add(int64(messages))
	_, err := redis.Client().Pipelined(ctx, func(pipe goredis.Pipeliner) error {
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
		if err := pause.For(ctx, time.Until(start.Add(time.Duration(i)*pushInterval))); err != nil {
			return err
		}
		s.pushed.Add(1)
		if err := redis.Client().LPush(ctx, s.object.Spec.QueueName, "message").Err(); err != nil {
			return err
		}
	}
	return nil
}

// work does as workers do until the shift ends: it takes a message and finishes
// a Job, at random. It returns how many Jobs those were.
func (s *subject) work(ctx context.Context, shift <-chan struct{}) (finished int, err error) {
	done := map[string]bool{}
	for {
		select {
		case <-shift:
			return len(done), nil
		case <-time.After(rand.N(2 * workInterval)):
		}
		// The witness may be yet to see what was done last.
		left := slices.DeleteFunc(s.witness.Unfinished(), func(job string) bool { return done[job] })
		if len(left) == 0 {
			continue
		}
		job := left[rand.IntN(len(left))]
		if err := s.finish(ctx, job); err != nil {
			return len(done), err
		}
		done[job] = true
	}
}

func (s *subject) finish(ctx context.Context, name string) error {
	if err := redis.Client().RPop(ctx, s.object.Spec.QueueName).Err(); err != nil {
		return fmt.Errorf("taking a message: %w", err)
	}
	return s.end(ctx, name)
}

// end has a Job succeed, without a message taken.
func (s *subject) end(ctx context.Context, name string) error {
	now := metav1.Now()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.object.Namespace, Name: name}}
	unfinished := job.DeepCopy()
	job.Status = batchv1.JobStatus{
		StartTime: &now, CompletionTime: &now, Succeeded: 1,
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	return api.Status().Patch(ctx, job, client.MergeFrom(unfinished))
}
